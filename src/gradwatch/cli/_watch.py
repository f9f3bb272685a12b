"""`gradwatch watch`."""

from __future__ import annotations

import click

from ._common import Command, run_argument


@click.command("watch", cls=Command)
@run_argument
@click.option("--once", is_flag=True, help="Show the current state and exit.")
@click.option(
    "--refresh",
    type=float,
    default=2.0,
    show_default=True,
    metavar="N",
    help="Redraws per second, at most 2.",
)
def command(run: str, once: bool, refresh: float) -> None:
    """Show a training while it runs.

    RUN is the directory that the monitor writes to, in another process; a run that does
    not exist yet is waited for. Shows each layer with the curve of its gradient norm,
    the worst first where not all fit, and the findings. Ends with the training, or with
    Ctrl-C. In a pipe, each finding is one line.

    \b
    Examples:
      gradwatch watch runs/a
      gradwatch watch runs/a --once
      gradwatch watch runs/a | tee findings.txt
    """  # noqa: D301 - click reads the backspace
    from ..show.live import follow

    follow(run, once=once, refresh=refresh)
