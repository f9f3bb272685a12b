"""`gradwatch watch`."""

from __future__ import annotations

import click

from ._common import Command, run_argument


@click.command("watch", cls=Command)
@run_argument
@click.option("--once", is_flag=True, help="Show what there is now, and end.")
@click.option(
    "--refresh",
    type=float,
    default=2.0,
    show_default=True,
    metavar="N",
    help="Redraws a second, at most 2.",
)
def command(run: str, once: bool, refresh: float) -> None:
    """Show a training while it runs.

    RUN is the directory that the monitor writes to, from another shell or process; it
    is waited for if it is not there yet. The layers with the curve of their gradient's
    norm, the worst first where there are more than lines, and what was found. It ends
    with the training, or with Ctrl-C. Into a pipe goes one line for each finding.

    \b
    Examples:
      gradwatch watch runs/a
      gradwatch watch runs/a --once
      gradwatch watch runs/a | tee findings.txt
    """  # noqa: D301 - click reads the backspace
    from ..show.live import follow

    follow(run, once=once, refresh=refresh)
