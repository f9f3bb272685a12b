"""Wraps methods of instances for a while, and restores exactly what was there.

This is the only patching mechanism of the package. A stand-in replaces the method on
the instance; no class is changed. All wrappers of one method of one object share one
stand-in. They may be added and removed in any order, and the last one to be removed
restores what was there before: nothing, or the attribute that the user had set on the
instance. A wrapper is active only in the context that added it, unless it was added
with `everywhere=True`; other threads run the original.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

_here: ContextVar[tuple[weakref.ref[Shadows], ...]] = ContextVar(
    "gradwatch_shadows", default=()
)
"""Shadows that are active in this context. Weak: a context may outlive them."""

_changing = threading.RLock()
"""Held while a stand-in is added or removed.

Reentrant: the garbage collector may close other shadows while it is held.
"""

_NOTHING = object()


class Shadows(contextlib.AbstractContextManager["Shadows"]):
    """A group of wrapped methods that is removed as a whole.

    Args:
        everywhere: Whether the wrappers are active in all threads. Training needs
            this: Keras runs the steps of several devices in separate threads.
    """

    def __init__(self, *, everywhere: bool = False) -> None:
        self.is_everywhere = everywhere
        self._stand_ins: list[_StandIn] = []

    def put(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Wraps a method.

        Args:
            owner: An instance or a module, never a class.
            name: Name of the method or function.
            around: Wrapper. It is called with the wrapped callable, followed by the
                arguments of the call.

        Raises:
            TypeError: If `owner` is a class.
        """
        if isinstance(owner, type):
            raise TypeError(
                "A method is shadowed on an instance. Received: the class "
                f"{owner.__name__!r}, which would change all of its instances. Shadow "
                "the method of one instance."
            )
        if not self._stand_ins and not self.is_everywhere:
            _here.set((*_here.get(), weakref.ref(self)))
        with _changing:
            stand_in = vars(owner).get(name)
            if not isinstance(stand_in, _StandIn):
                stand_in = _StandIn(owner, name)
                # Not setattr, which Keras and torch override to track attributes.
                vars(owner)[name] = stand_in
            # A new tuple: a call in another thread may be iterating over the old one.
            stand_in.wrappers = (*stand_in.wrappers, (self, around))
        self._stand_ins.append(stand_in)

    def close(self) -> None:
        """Removes the wrappers. May be called more than once, and by any thread."""
        with _changing:
            while self._stand_ins:
                self._stand_ins.pop().remove(self)
        # Drop the references to closed shadows of this context, and to dead ones.
        here = _here.get()
        active = tuple(ref for ref in here if (it := ref()) and it._stand_ins)
        if len(active) < len(here):
            _here.set(active)

    def is_seen(self) -> bool:
        """Returns whether the wrappers are active in the current context."""
        return self.is_everywhere or any(ref() is self for ref in _here.get())

    def __exit__(self, *exception: object) -> None:
        self.close()


class _StandIn:
    """Replacement of one method for as long as it has wrappers."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner = owner
        self.name = name
        self.had = vars(owner).get(name, _NOTHING)
        self.original = getattr(owner, name)
        self._wrappers: tuple[tuple[Shadows, Callable[..., Any]], ...] = ()
        self._call: Callable[..., Any] | None = self.original
        # Keras reads the signature to report the arguments of a call that raised.
        functools.update_wrapper(self, self.original, updated=())

    @property
    def wrappers(self) -> tuple[tuple[Shadows, Callable[..., Any]], ...]:
        """The wrappers and what they belong to, in the order they were added."""
        return self._wrappers

    @wrappers.setter
    def wrappers(self, new: tuple[tuple[Shadows, Callable[..., Any]], ...]) -> None:
        # Wrappers that are active everywhere are joined once, not at each call: some
        # stand around every step of a training.
        self._wrappers = new
        is_fixed = all(shadows.is_everywhere for shadows, _ in new)
        self._call = self._joined() if is_fixed else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._call or self._joined()
        return call(*args, **kwargs)

    def _joined(self) -> Callable[..., Any]:
        """Returns the method inside all wrappers that are active here."""
        call: Callable[..., Any] = self.original
        # The first wrapper that was added is the outermost one.
        for shadows, around in reversed(self._wrappers):
            if shadows.is_seen():
                call = functools.partial(around, call)
        return call

    def remove(self, shadows: Shadows) -> None:
        """Removes one wrapper of these shadows, and the stand-in with the last one."""
        owners = [owner for owner, _ in self.wrappers]
        if shadows in owners:
            index = owners.index(shadows)
            self.wrappers = self.wrappers[:index] + self.wrappers[index + 1 :]
        # An attribute that was set over the stand-in meanwhile belongs to the user.
        if not self.wrappers and vars(self.owner).get(self.name) is self:
            _restore(self.owner, self.name, self.had)


@contextlib.contextmanager
def looked_up_late(owner: Any, name: str) -> Iterator[None]:
    """Makes a method that is read inside the block resolve when it is called.

    A compiled function keeps the method that it read, while wrappers of that method
    come and go. The method must not be called inside the block.
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
            _restore(owner, name, had)


def is_shadow(value: object) -> bool:
    """Returns whether a value is the stand-in of a method."""
    return isinstance(value, _StandIn)


def is_shadowed(owner: Any, name: str) -> bool:
    """Returns whether a method of this object is wrapped."""
    return is_shadow(vars(owner).get(name))


def _restore(owner: Any, name: str, had: Any) -> None:
    if had is _NOTHING:
        del vars(owner)[name]
    else:
        vars(owner)[name] = had
