"""The errors that gradwatch raises, and helpers for their messages.

Every message has three parts: the rule that was broken, the value that was received,
and a way out.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any


class GradwatchError(ValueError):
    """An argument that cannot be used; the message says what to do.

    Example:
    >>> import gradwatch as gw
    >>> issubclass(gw.AddressError, gw.GradwatchError)
    True
    """


class AddressError(GradwatchError, KeyError):
    """A name that matches nothing, or more than one address.

    Example:
    >>> import gradwatch as gw
    >>> issubclass(gw.AddressError, KeyError)
    True
    """

    # KeyError prints the repr of its argument, which would escape the newlines.
    __str__ = ValueError.__str__


class TargetError(GradwatchError):
    """A target that cannot be differentiated: not one number, or nonexistent.

    Example:
    >>> import gradwatch as gw
    >>> issubclass(gw.TargetError, ValueError)
    True
    """


_names: ContextVar[Mapping[str, str]] = ContextVar("gradwatch_names")


@contextlib.contextmanager
def renamed(**names: str) -> Iterator[None]:
    """Lets errors inside call arguments by other names.

    A function that passes its own argument on under another name uses it, so that an
    error names the argument that the caller gave. Where contexts are nested, the name
    of the outer one is shown, as it is closer to the caller.

    Args:
        **names: For the name of an argument inside, the name that the caller knows.

    Example:
    >>> with renamed(layer="--layer"), renamed(wrt="layer"):
    ...     arg("wrt")
    '`--layer`'
    """
    outer = _names.get({})
    shown = {inner: outer.get(name, name) for inner, name in names.items()}
    token = _names.set({**outer, **shown})
    try:
        yield
    finally:
        _names.reset(token)


def require(fits: bool, rule: str, received: Any, way_out: str = "") -> None:
    """Raises an error with the rule, the value and a way out, unless the value fits."""
    if not fits:
        raise GradwatchError(f"{rule} Received: {received!r}. {way_out}".rstrip())


def arg(name: str) -> str:
    """Returns the name of an argument as the caller knows it, for a message."""
    return f"`{_names.get({}).get(name, name)}`"


def listing() -> str:
    """Returns the call or command that lists the addresses, for a message."""
    return arg("gradwatch.layers(model)")


_verb: ContextVar[str] = ContextVar("gradwatch_verb", default="gradients")


@contextlib.contextmanager
def called_as(verb: str) -> Iterator[None]:
    """Lets errors inside name this verb as the one that was called.

    Example:
    >>> with called_as("autopsy"):
    ...     called_verb()
    'autopsy'
    """
    token = _verb.set(verb)
    try:
        yield
    finally:
        _verb.reset(token)


def called_verb() -> str:
    """Returns the public function that was called, for a message."""
    return _verb.get()


def closest(name: str, candidates: Sequence[str], limit: int = 3) -> list[str]:
    """Returns the candidates that look most like `name`, best first."""
    by_end = [c for c in candidates if c.rsplit("/", 1)[-1] == name]
    whole = difflib.get_close_matches(name, candidates, n=limit, cutoff=0.4)
    tails = {c.rsplit("/", 1)[-1]: c for c in reversed(candidates)}
    last = name.rsplit("/", 1)[-1]
    by_tail = [tails[t] for t in difflib.get_close_matches(last, list(tails), n=limit)]
    return list(dict.fromkeys([*by_end, *whole, *by_tail]))[:limit]


def quoted(names: Iterable[str], limit: int = 8) -> str:
    """Returns quoted names, separated by commas; the rest of a long list is counted."""
    names = list(names)
    shown = ", ".join(repr(n) for n in names[:limit])
    more = len(names) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun: "1 layer", "14 layers"."""
    plural = {"axis": "axes"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"
