"""Keeps a failure of gradwatch from ending the training that it watches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def caught(
    handle: Callable[[Exception], object],
    passing: type[Exception] | tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Hands an exception to a function instead of letting it reach the training.

    Example:
    >>> errors = []
    >>> with caught(errors.append):
    ...     raise OSError("No space left on device")
    >>> errors
    [OSError('No space left on device')]

    Args:
        handle: Called with the exception.
        passing: Errors that the user must see; they are raised as usual.
    """
    try:
        yield
    except passing:
        raise
    except Exception as error:  # noqa: BLE001 - any failure, whatever its class
        handle(error)
