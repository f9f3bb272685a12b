"""Noticing the end of a `fit` that fails, of which Keras tells nobody.

`on_train_end` is called when a `fit` succeeds. When it does not, the error leaves
through one of three doors: the train function (which is ours), a callback, or the data.
The latter two are objects that this one `fit` made for itself, so they can be shadowed
and go with it. What gets past all three (an interruption between two calls) is noticed
when the list of callbacks of that `fit` is no more, or when the model is used again.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_HOOKS = tuple(
    f"on_{what}_{when}"
    for what in ("epoch", "train_batch", "test", "test_batch")
    for when in ("begin", "end")
)


def close_with(frame: FrameType, close: Callable[[], None]) -> None:
    """Calls `close` when the `fit` fails, in whose list of callbacks `frame` runs."""
    callbacks = frame.f_locals["self"]
    weakref.finalize(callbacks, close).atexit = False
    for hook in _HOOKS:
        original = getattr(callbacks, hook, None)
        if original is not None:
            setattr(callbacks, hook, _closing(original, close))
    fit = frame.f_back
    batches = fit.f_locals.get("epoch_iterator") if fit is not None else None
    enumerate_batches = getattr(batches, "_enumerate_iterator", None)
    if batches is not None and enumerate_batches is not None:
        batches._enumerate_iterator = _closing_generator(enumerate_batches, close)
    # Around each batch that is fetched (torch), or around all of an epoch (the others).
    catching = getattr(batches, "catch_stop_iteration", None)
    if batches is not None and catching is not None:
        batches.catch_stop_iteration = _closing_context(catching, close)


def running(frame: FrameType) -> Callable[[], bool]:
    """Returns what tells whether the same `fit` is among those who called."""
    callbacks = weakref.ref(frame.f_locals["self"])
    code = None if frame.f_back is None else frame.f_back.f_code

    def runs() -> bool:
        mine = callbacks()
        caller: FrameType | None = sys._getframe(1)
        while mine is not None and caller is not None:
            local = caller.f_locals.values() if caller.f_code is code else ()
            if any(value is mine for value in local):
                return True
            caller = caller.f_back
        return False

    return runs


def _closing(call: Callable[..., Any], close: Callable[[], None]) -> Any:
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except BaseException:
            close()
            raise

    return called


def _closing_generator(make: Callable[..., Any], close: Callable[[], None]) -> Any:
    def made(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            yield from make(*args, **kwargs)
        except GeneratorExit:
            raise  # the loop was left, as `stop_training` does
        except BaseException:
            close()
            raise

    return made


def _closing_context(make: Callable[[], Any], close: Callable[[], None]) -> Any:
    @contextlib.contextmanager
    def made() -> Iterator[None]:
        try:
            with make():
                yield
        except BaseException:
            close()
            raise

    return made
