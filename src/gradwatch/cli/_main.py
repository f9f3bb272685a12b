"""The command `gradwatch`: finding its commands, and turning errors into one sentence.

click makes the help, the shell completion and the runner of the tests from plain
functions, without reading their annotations, and has no dependencies of its own.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

import click

from .._errors import GradwatchError, renamed
from .._version import __version__
from ..native import library, why_not
from ._common import RUN_OPTIONS

COMMANDS = (
    *("demo", "inspect", "attribute", "layers", "watch"),
    *("diagnose", "autopsy", "report", "diff", "export"),
)
"""The commands, in the order of the help.

Each is the `command` of the file of its name, which is loaded when it is asked for, or
the help. None of them imports anything that is slow at its top: `gradwatch --help` and
the completion of a shell do not wait for a framework.
"""


class Commands(click.Group):
    """Finds commands in their files; turns errors into one sentence and status 2."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Returns the names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """Loads a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"._{cmd_name}", __package__)
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command."""
        # A bug report shows the error that Python's users see.
        names = {} if ctx.params.get("debug") else RUN_OPTIONS
        try:
            with warnings.catch_warnings(), renamed(**names):
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except BrokenPipeError:  # `| head` has seen enough; click ends in silence
            raise
        except (GradwatchError, OSError) as error:
            if ctx.params.get("debug"):
                raise
            raise Refused(_message(error)) from None


def _message(error: Exception) -> str:
    """Returns the text of an error; of a system's error the rule and the way out."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    rule, what = "The output must be writable", ""
    out = "Make room, or write to another file."
    if error.filename:
        rule = "A file must be readable and writable"
        what = f"{os.fsdecode(error.filename)!r}: "
        out = "Choose another path, or change its permissions."
    return f"{rule}. Received: {what}{error.strerror}. {out}"


class Refused(click.ClickException):
    """An argument cannot be used."""

    exit_code = 2


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    """Prints a warning as one line, without the file and line that gave it."""
    click.echo(f"Warning: {message}", err=True)


def _say_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Prints the version, and whether gradients are measured by the native sweep."""
    if not wanted or ctx.resilient_parsing:
        return
    built = library()
    sweep = f"native sweep: {built.name}" if built else f"no native sweep: {why_not()}"
    click.echo(f"gradwatch {__version__} ({sweep})")
    ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Show every gradient of a Keras model.

    \b
    Examples:
      gradwatch demo                                    a fault planted and found
      gradwatch inspect model.keras --data batch.npz    every gradient, by name
      gradwatch watch runs/a                            a training while it runs
      gradwatch diagnose runs/a                         what is wrong, what to try
      gradwatch report runs/a runs/b -o report.html     a page to look at and to send
      gradwatch COMMAND --help                          examples of each command

    The exit status is 2 if an argument cannot be used, with one sentence why.

    Completion in bash: eval "$(_GRADWATCH_COMPLETE=bash_source gradwatch)"; in zsh the
    same with zsh_source; in fish: _GRADWATCH_COMPLETE=fish_source gradwatch | source
    """  # noqa: D301 - click reads the backspace
    del debug  # read by `Commands.invoke`
