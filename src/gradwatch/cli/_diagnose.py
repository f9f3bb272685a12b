"""`gradwatch diagnose`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from .._errors import counted
from ._common import Command, json_option, run_argument, say, say_json


def _symptoms(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from ..diagnose import SYMPTOMS

    del ctx, param
    return [
        CompletionItem(name, help=words)
        for name, words in SYMPTOMS.items()
        if name.startswith(incomplete)
    ]


@click.command("diagnose", cls=Command)
@run_argument
@json_option
@click.option(
    "--ignore",
    multiple=True,
    metavar="SYMPTOM",
    shell_complete=_symptoms,
    help="A symptom that is known and accepted; may be given again.",
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
    found = [f for f in find(opened) if f.symptom not in ignore]
    if as_json:
        say_json([finding.to_dict() for finding in found])
    elif found:
        say("\n\n".join(str(finding) for finding in found))
    else:
        steps = counted(len(opened.steps), "recorded step")
        found_none = (
            f"Nothing is wrong in {steps} of {run}." if len(opened.steps) else ""
        )
        say(" ".join(words for words in (found_none, why_incomplete(opened)) if words))
    ctx.exit(1 if found else 0)
