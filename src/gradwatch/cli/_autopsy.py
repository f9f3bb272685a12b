"""`gradwatch autopsy`."""

from __future__ import annotations

import click

from ._common import Command, json_option, run_argument, say


@click.command("autopsy", cls=Command)
@run_argument
@json_option
def command(run: str, as_json: bool) -> None:
    """Print where the first NaN or infinity of a training came from.

    RUN is the directory of a run that was watched with
    GradientMonitor(…, on_nonfinite="autopsy").

    \b
    Examples:
      gradwatch autopsy runs/a
      gradwatch autopsy runs/a --json
    """  # noqa: D301 - click reads the backspace
    from ..diagnose import Autopsy

    autopsy = Autopsy.load(run)
    say(autopsy, autopsy.to_dict() if as_json else None)
