"""What several commands have in common: options, arguments, how they print."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from .._errors import GradwatchError
from ._complete import runs

Function = TypeVar("Function", bound=Callable[..., Any])


class Command(click.Command):
    """A command that knows `--debug` as well: people put it last."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                callback=_debug,
                help="Show the traceback of an error.",
            )
        )


def _debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().params["debug"] = True


run_argument = click.argument("run", type=click.Path(), shell_complete=runs)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, for a script."
)


def say(thing: Any) -> None:
    """Prints a result: in colours that fit a terminal, and as plain text elsewhere."""
    if is_terminal() and hasattr(thing, "__rich__"):
        from rich.console import Console

        Console(highlight=False).print(thing)
    else:
        click.echo(str(thing))


def is_terminal() -> bool:
    """Whether somebody is looking."""
    return bool(getattr(sys.stdout, "isatty", lambda: False)())


def say_json(thing: Any) -> None:
    """Prints JSON that every parser takes: NaN and infinities are words in it."""
    from ..show.charts import plain

    click.echo(json.dumps(plain(thing), allow_nan=False, ensure_ascii=False))


def require_place(option: str, path: str | None) -> None:
    """Requires that a file can be made, before a model is run for it."""
    above = os.path.dirname(path or "")
    if above and not os.path.isdir(above):
        raise GradwatchError(
            f"`{option}` must be in a directory that exists. Received: {path!r}. Make "
            f"{above!r} first."
        )


_OPTIONS = {
    **{name: f"--{name}" for name in ("wrt", "target", "layer", "steps", "baseline")},
    **dict.fromkeys(("index", "which", "output"), "--target"),
    "gradwatch.layers(model)": "gradwatch layers MODEL",
}
_OPTIONS_OF_RUNS = {
    "directory": "RUN",
    "path": "--output",
    "format": "--format",
    "refresh": "--refresh",
}


def in_options(text: str, words: Mapping[str, str] = _OPTIONS_OF_RUNS) -> str:
    """Returns an error's text, with the options for arguments of Python."""
    for argument, option in words.items():
        text = text.replace(f"`{argument}`", f"`{option}`")
    return text


@contextlib.contextmanager
def told(ctx: click.Context, doing: str) -> Iterator[None]:
    """What others raise (a model, Keras, a framework) becomes one sentence, too.

    Our own errors speak of arguments of Python; here they are options.
    """
    try:
        yield
    except GradwatchError as error:
        text = in_options(str(error), _OPTIONS)
        raise type(error)(text).with_traceback(error.__traceback__) from None
    except (OSError, click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        if ctx.find_root().params.get("debug"):
            raise
        raise GradwatchError(
            f"{doing} failed. {type(error).__name__}: {_short(error)} "
            "`--debug` shows where."
        ) from None


def _short(error: Exception) -> str:
    """Returns the first lines of what was raised: frameworks print whole graphs."""
    text = " ".join(str(error).split("\n\n")[0].split())
    return text if len(text) <= 400 else f"{text[:400]} …"
