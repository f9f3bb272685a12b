"""`gradwatch diff`."""

from __future__ import annotations

import click

from ._common import Command, json_option, say
from ._complete import runs


@click.command("diff", cls=Command)
@click.argument("a", type=click.Path(), shell_complete=runs, metavar="RUN")
@click.argument("b", type=click.Path(), shell_complete=runs, metavar="RUN")
@json_option
@click.option(
    "--exit-code", is_flag=True, help="Exit with status 1 if the runs differ."
)
@click.pass_context
def command(ctx: click.Context, a: str, b: str, as_json: bool, exit_code: bool) -> None:
    """Print what differs between two runs.

    The facts of the trainings, the norms of each layer at the steps that both recorded,
    and the findings of only one of them.

    \b
    Examples:
      gradwatch diff runs/a runs/b
      gradwatch diff runs/a runs/b --json
      gradwatch diff runs/a runs/again --exit-code     is it reproducible?
    """  # noqa: D301 - click reads the backspace
    from ..run import open_run
    from ..show.diff import compare

    difference = compare(open_run(a), open_run(b))
    say(difference, difference.to_dict() if as_json else None)
    ctx.exit(1 if exit_code and not difference.same else 0)
