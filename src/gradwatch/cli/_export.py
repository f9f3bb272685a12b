"""`gradwatch export`."""

from __future__ import annotations

import click

from .._errors import counted
from ._common import Command, file_option, run_argument


@click.command("export", cls=Command)
@run_argument
@file_option(
    "-o", "--output", required=True, help="Output file: .csv, .json or .parquet."
)
def command(run: str, output: str) -> None:
    """Write the numbers of a run into a file for other tools.

    One row for each recorded step and name. What was not measured is empty. Parquet
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
        # The draft beside it was refused, whose name the user has never seen.
        error.filename = output
        raise
    rows = sum(chunk.count * len(chunk.layout) for chunk in opened.store.chunks)
    steps = counted(len(opened.steps), "step")
    click.echo(f"Wrote {output}: {counted(rows, 'row')} of {steps}.")
