"""`gradwatch export`."""

from __future__ import annotations

import click

from .._errors import counted
from ._common import Command, run_argument


@click.command("export", cls=Command)
@run_argument
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The file: .csv, .json or .parquet.",
)
def command(run: str, output: str) -> None:
    """Write the numbers of a run into a file for other tools.

    One line for each recorded step and name. What was not measured is empty. Parquet
    needs pip install "gradwatch[pandas]".

    \b
    Examples:
      gradwatch export runs/a -o a.csv
      gradwatch export runs/a -o a.parquet
      gradwatch export runs/a -o a.json
    """  # noqa: D301 - click reads the backspace
    from ..run import open_run

    opened = open_run(run)
    try:
        opened.export(output)
    except OSError as error:
        # The file is made beside its place first, under a name that nobody gave.
        error.filename = output
        raise
    lines = sum(len(record.layout) for record in opened.records())
    click.echo(
        f"Wrote {output}: {counted(lines, 'line')} of "
        f"{counted(len(opened.steps), 'step')}."
    )
