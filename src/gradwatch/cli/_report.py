"""`gradwatch report`."""

from __future__ import annotations

import click

from ._common import Command, file_option
from ._complete import runs


@click.command("report", cls=Command)
@click.argument(
    "runs", nargs=-1, required=True, type=click.Path(), shell_complete=runs,
    metavar="RUN...",
)  # fmt: skip
@file_option(
    "-o",
    "--output",
    help="Output file, or - for the screen (default: report.html for HTML, and the "
    "screen for md and json).",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["html", "md", "json"]),
    help="Report format (default: the suffix of FILE).",
)
@click.option("--title", help="Report heading (default: the run names).")
def command(
    runs: tuple[str, ...], output: str | None, kind: str | None, title: str | None
) -> None:
    """Write a report of runs, to look at or to send.

    Findings come first, then pictures and numbers. An HTML report is a single file
    that needs no network.

    \b
    Examples:
      gradwatch report runs/a -o report.html
      gradwatch report runs/a runs/b -o both.html --title "Before and after"
      gradwatch report runs/a --format md          for a pull request
      gradwatch report runs/a --format json        for a script
    """  # noqa: D301 - click reads the backspace
    from ..show.report import report, write_report

    if output == "-" or (output is None and kind in ("md", "json")):
        click.echo(report(runs, kind or "html", title=title), nl=False)
        return
    path = write_report(runs, output or "report.html", format=kind, title=title)
    click.echo(f"Wrote {path} ({path.stat().st_size / 1e3:,.0f} kB).")
