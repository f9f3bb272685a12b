"""Errors of reading and exporting runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .._errors import GradwatchError


class RunError(GradwatchError):
    """A run cannot be read or exported; the message says what is there instead.

    Example:
    >>> from gradwatch.run import open_run
    >>> try:
    ...     open_run("nowhere")
    ... except RunError as error:
    ...     print(error)
    `directory` must be the directory of a run. Received: 'nowhere', which does not
    exist. Give the directory that the monitor was given.
    """


class MissingExtraError(RunError, ImportError):
    """A library is not installed; the message names the extra that brings it."""


@contextlib.contextmanager
def needing(library: str, extra: str, purpose: str) -> Iterator[None]:
    """Raises the error for an optional library that the block cannot import."""
    try:
        yield
    except ImportError:
        raise MissingExtraError(
            f"{purpose} needs {library}, which is not installed. "
            f'`pip install "gradwatch[{extra}]"` brings it.'
        ) from None
