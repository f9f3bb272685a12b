"""The one way to put something in front of a method, and to take it away again.

A stand-in takes the place of the method on the instance; no class is touched. Whoever
shadows the same method of the same object shares it, in whatever order they come and
go, and the last one to go puts back exactly what was there: nothing, or what the user
had put on the instance. Unless it is said to be everywhere, what is in front is seen
by the context that put it there only, and other threads run the original.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any

_here: ContextVar[tuple[weakref.ref[Shadows], ...]] = ContextVar(
    "gradwatch_shadows", default=()
)
"""What is in front in this context. Weak: a context may outlive what was put there."""

_changing = threading.RLock()
"""Held while a stand-in is put in or taken away. A collector may close inside it."""

_NOTHING = object()


class Shadows:
    """Functions in front of methods, taken away together.

    Args:
        everywhere: Whether all threads see them. A training needs it: Keras runs the
            steps of several devices in threads of their own.
    """

    def __init__(self, *, everywhere: bool = False) -> None:
        self._everywhere = everywhere
        self._stand_ins: list[tuple[_StandIn, Callable[..., Any]]] = []

    def put(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Puts a function in front of a method.

        Args:
            owner: An instance, or a module, never a class.
            name: The name of its method, or function.
            around: Gets what is behind it, then the arguments of the call.
        """
        if isinstance(owner, type):
            raise TypeError(
                f"A method is shadowed on an instance. Received: the class "
                f"{owner.__name__!r}, whose every instance would change. Shadow it on "
                "the instance that is meant."
            )
        if not self._stand_ins:
            self._enter()
        with _changing:
            stand_in = vars(owner).get(name)
            if not isinstance(stand_in, _StandIn):
                stand_in = _StandIn(owner, name)
                # Not setattr: Keras and the frameworks would track it.
                vars(owner)[name] = stand_in
            stand_in.layers = (*stand_in.layers, (self, around))
        self._stand_ins.append((stand_in, around))

    def close(self) -> None:
        """Takes away what was put there; may be called twice, and by any thread."""
        with _changing:
            while self._stand_ins:
                stand_in, _ = self._stand_ins.pop()
                stand_in.leave(self)
        found = [ref for ref in _here.get() if (it := ref()) is not None and it.is_open]
        if len(found) < len(_here.get()):
            _here.set(tuple(found))

    @property
    def is_open(self) -> bool:
        """Whether anything is there."""
        return bool(self._stand_ins)

    def is_seen(self) -> bool:
        """Whether a call that is made now sees them."""
        return self._everywhere or any(ref() is self for ref in _here.get())

    def __enter__(self) -> Shadows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _enter(self) -> None:
        if not self._everywhere:
            _here.set((*_here.get(), weakref.ref(self)))


class _StandIn:
    """Stands in for one method while anything is in front of it."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner = owner
        self.name = name
        self.had = vars(owner).get(name, _NOTHING)
        self.original = getattr(owner, name)
        self.layers: tuple[tuple[Shadows, Callable[..., Any]], ...] = ()
        # Keras reads the signature to say which arguments an error was raised with.
        functools.update_wrapper(self, self.original, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self.original
        # The one that came first is the outermost.
        for shadows, around in reversed(self.layers):
            if shadows.is_seen():
                call = functools.partial(around, call)
        return call(*args, **kwargs)

    def leave(self, shadows: Shadows) -> None:
        """Takes one layer away; the last one takes the stand-in with it."""
        places = [i for i, layer in enumerate(self.layers) if layer[0] is shadows]
        if places:
            last = places[-1]
            self.layers = self.layers[:last] + self.layers[last + 1 :]
        # What somebody put over it meanwhile is theirs, and stays.
        if self.layers or vars(self.owner).get(self.name) is not self:
            return
        _put_back(self.owner, self.name, self.had)


@contextlib.contextmanager
def looked_up_late(owner: Any, name: str) -> Iterator[None]:
    """Gives whoever reads a method inside one that is looked up when it is called.

    What is compiled keeps the method that it has read; what is in front of it comes and
    goes. Nobody may call the method inside.
    """

    def late(*args: Any, **kwargs: Any) -> Any:
        return getattr(owner, name)(*args, **kwargs)

    functools.update_wrapper(late, getattr(owner, name), updated=())
    own = vars(owner)
    had = own.get(name, _NOTHING)
    own[name] = late
    try:
        yield
    finally:
        if own.get(name) is late:
            _put_back(owner, name, had)


def is_shadow(value: object) -> bool:
    """Whether this stands in for a method."""
    return isinstance(value, _StandIn)


def is_shadowed(owner: Any, name: str) -> bool:
    """Whether anything is in front of a method of this object."""
    return is_shadow(vars(owner).get(name))


def own_of(owner: Any, name: str) -> Any:
    """Returns what the user put on the instance by this name, or None."""
    value = vars(owner).get(name)
    if isinstance(value, _StandIn):
        value = None if value.had is _NOTHING else value.had
    return value


def _put_back(owner: Any, name: str, had: Any) -> None:
    if had is _NOTHING:
        del vars(owner)[name]
    else:
        vars(owner)[name] = had
