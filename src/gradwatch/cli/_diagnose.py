"""`gradwatch diagnose`."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from .._errors import counted
from ._common import Command, json_option, run_argument, say


def _symptoms(_: Any, __: Any, incomplete: str) -> list[CompletionItem]:
    from ..diagnose import SYMPTOMS

    names = [name for name in SYMPTOMS if name.startswith(incomplete)]
    return [CompletionItem(name, help=SYMPTOMS[name]) for name in names]


@click.command("diagnose", cls=Command)
@run_argument
@json_option
@click.option(
    "--ignore",
    multiple=True,
    metavar="SYMPTOM",
    shell_complete=_symptoms,
    help="Symptom that is known and accepted. May be repeated.",
)
@click.pass_context
def command(
    ctx: click.Context, run: str, as_json: bool, ignore: tuple[str, ...]
) -> None:
    """Print what is wrong with a training.

    RUN is the directory of a run. The exit status is 0 if nothing is wrong, 1 if
    something is, 2 if RUN cannot be read.

    \b
    Examples:
      gradwatch diagnose runs/a
      gradwatch diagnose runs/a --ignore clipping --json
    """  # noqa: D301 - click reads the backspace
    from ..diagnose import find, require_symptoms, why_incomplete
    from ..run import open_run

    require_symptoms(ignore, "--ignore")
    opened = open_run(run)
    findings = [f for f in find(opened) if f.symptom not in ignore]
    text = "\n\n".join(str(finding) for finding in findings)
    if not findings:
        steps = counted(len(opened.steps), "recorded step")
        healthy = f"Nothing is wrong in {steps} of {run}. " if len(opened.steps) else ""
        text = f"{healthy}{why_incomplete(opened)}".strip()
    say(text, [finding.to_dict() for finding in findings] if as_json else None)
    ctx.exit(1 if findings else 0)
