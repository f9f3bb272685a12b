"""Options, arguments, printing and errors that several commands share."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from .._errors import GradwatchError, renamed, require
from ._complete import runs

Function = TypeVar("Function", bound=Callable[..., Any])


class Command(click.Command):
    """A command that takes `--debug` too, which is usually put last."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Returns the options of the command, and `--debug`."""
        words = "Show the traceback of an error."
        style: Any = {"is_flag": True, "expose_value": False, "callback": _debug}
        *own, usage = super().get_params(ctx)
        return [*own, click.Option(["--debug"], help=words, **style), usage]


def options(*each: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Returns several options and arguments as one decorator, in the order given."""
    return lambda function: functools.reduce(
        lambda inner, option: option(inner), reversed(each), function
    )


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().params["debug"] = True


run_argument = click.argument("run", type=click.Path(), shell_complete=runs)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, for scripts."
)


def say(thing: Any, data: Any = None) -> None:
    """Prints a result, in colours that fit a terminal and as plain text elsewhere.

    Args:
        thing: The result.
        data: Its data, if JSON was asked for. It is printed instead, so that every
            parser takes it: NaN and infinities are strings in it.
    """
    if data is not None:
        from ..show.charts import plain

        click.echo(json.dumps(plain(data), allow_nan=False, ensure_ascii=False))
    elif is_terminal() and hasattr(thing, "__rich__"):
        from rich.console import Console

        Console(highlight=False).print(thing)
    else:
        click.echo(str(thing))


def is_terminal() -> bool:
    """Returns whether the output goes to a terminal."""
    return bool(getattr(sys.stdout, "isatty", lambda: False)())


def in_directory(_: click.Context, option: click.Parameter, path: str) -> str:
    """Requires that the directory of a file exists, before a model is run for it."""
    above = os.path.dirname(path or "")
    rule = f"`{option.opts[-1]}` must be in a directory that exists."
    require(not above or os.path.isdir(above), rule, path, f"Make {above!r} first.")
    return path


file_option = functools.partial(
    click.option, type=click.Path(dir_okay=False), metavar="FILE"
)
"""An option that names a file to write."""

_MODEL_OPTIONS = {
    **{name: f"--{name}" for name in ("wrt", "target", "layer", "steps", "baseline")},
    **dict.fromkeys(("index", "which", "output"), "--target"),
    "gradwatch.layers(model)": "gradwatch layers MODEL",
}
RUN_OPTIONS = {
    **{name: f"--{name}" for name in ("format", "refresh")},
    "directory": "RUN",
    "path": "--output",
}
"""Options of the commands for runs, by the argument of Python that each one sets."""


@contextlib.contextmanager
def one_sentence(ctx: click.Context, doing: str) -> Iterator[None]:
    """Turns whatever a model, Keras or a framework raises into one sentence.

    Our own errors stay as they are, and name options in place of Python's arguments.
    """
    try:
        with renamed(**_MODEL_OPTIONS):
            yield
    except (GradwatchError, OSError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        if ctx.find_root().params.get("debug"):
            raise
        # The first lines of a message: frameworks print whole graphs.
        first = " ".join(str(error).split("\n\n")[0].split())
        text = first if len(first) <= 400 else f"{first[:400]} …"
        raise GradwatchError(
            f"{doing} failed. {type(error).__name__}: {text} `--debug` shows where."
        ) from None
