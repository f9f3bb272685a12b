"""Keeps a failure of gradwatch from ending the training that it watches."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Caught:
    """Hands an exception to a function instead of letting it reach the training.

    Not a generator: one of these stands around every step, and may be entered again.

    Example:
    >>> errors = []
    >>> with Caught(errors.append):
    ...     raise OSError("No space left on device")
    >>> errors
    [OSError('No space left on device')]

    Args:
        handle: Called with the exception.
        passing: Errors that the user must see; they are raised as usual.
    """

    __slots__ = ("_handle", "_passing")

    def __init__(
        self,
        handle: Callable[[Exception], object],
        passing: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> None:
        self._handle = handle
        self._passing = passing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, self._passing):
            return False
        self._handle(error)
        return True
