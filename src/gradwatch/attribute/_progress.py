"""The progress bar of this room: rich's in a terminal, lines in a log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from .._errors import require

SECONDS = 10.0
"""Seconds between two lines of a log."""


@contextlib.contextmanager
def progress_bar(
    title: str,
    total: float | None,
    progress: bool | None,
    *,
    done: float = 0,
    patience: float = 2.0,
) -> Iterator[Callable[..., None]]:
    """Shows how much is done while the context lasts.

    Args:
        title: The text before the bar.
        total: The amount of work; None where it is unknown.
        progress: True for a bar in a terminal or notebook and lines elsewhere, None
            for the bar only, False for nothing.
        done: The amount that an earlier call has done.
        patience: Seconds after which a bar appears that was not asked for. It goes
            away at the end; with 0 it stays.

    Raises:
        GradwatchError: If `progress` is something else.
    """
    rule = "`progress` must be True, False or None."
    require(progress in (True, False, None), rule, progress)
    console = Console(stderr=True)
    interactive = console.is_terminal or console.is_jupyter
    if progress is False or not (progress or interactive):
        yield lambda *_: None
        return
    work = "{task.description}", BarColumn(), MofNCompleteColumn()
    times = "{task.fields[detail]}", TimeElapsedColumn(), TimeRemainingColumn()
    bar = Progress(*work, *times, console=console, transient=patience > 0)
    number: Any = bar.add_task(title, total=total, completed=done, detail="")  # type: ignore[arg-type]
    task, of = bar.tasks[0], "" if total is None else f" of {total:,.0f}"
    start = last = time.monotonic()

    def advance(amount: float, detail: str = "") -> None:
        nonlocal last
        bar.update(number, advance=amount, detail=detail)
        now = time.monotonic()
        if interactive:
            if progress or now - start >= patience:
                bar.start()
        elif now - last >= SECONDS or task.completed == total:
            last = now
            text = f"{title}: {task.completed:,.0f}{of} {detail}".rstrip()
            console.print(text, highlight=False, soft_wrap=True)

    try:
        yield advance
        # The length is known now, so that the bar comes to rest.
        bar.update(number, total=task.completed)
    finally:
        if bar.live.is_started:
            bar.stop()
