"""A bar for what takes long: in a terminal, and only when it does."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..._errors import GradwatchError

PATIENCE = 2.0
"""Seconds that nobody needs a bar for."""


@contextlib.contextmanager
def bar(
    words: str, total: float, progress: bool | None
) -> Iterator[Callable[[float], None]]:
    """Gives the function that is told how much was done.

    Args:
        words: What is done, before the bar.
        total: How much there is to do.
        progress: None: a bar in a terminal, for what takes longer than two seconds.

    Raises:
        GradwatchError: When `progress` is something else.
    """
    if progress not in (True, False, None):
        raise GradwatchError(
            f"`progress` must be True, False or None. Received: {progress!r}."
        )
    if progress is False:
        yield _unseen
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if progress is None and not console.is_terminal:
        yield _unseen
        return
    # In a log the finished bar is all there is to see; a terminal is left clean.
    shown = Progress(console=console, transient=console.is_terminal)
    task: Any = shown.add_task(words, total=total)
    began = time.monotonic()
    started = False

    def tick(amount: float) -> None:
        nonlocal started
        shown.advance(task, amount)
        if not started and (progress or time.monotonic() - began > PATIENCE):
            shown.start()
            started = True

    try:
        yield tick
    finally:
        if started:
            shown.stop()


def _unseen(amount: float) -> None:
    """Shows nothing."""
    del amount
