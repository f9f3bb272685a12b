"""How far it is: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

SECONDS = 10
"""Between two lines of a log."""

Advance = Callable[[int, int], None]
"""Told how many batches and examples are done."""


@contextlib.contextmanager
def shown(
    progress: bool | None, total: int | None, done: int, title: str
) -> Iterator[Advance]:
    """Shows how far it is.

    Args:
        progress: None: where somebody looks; True: in a log as well; False: not at all.
        total: How many batches there will be, if that is known.
        done: How many of them an earlier call has done.
        title: What is being made.
    """
    console = Console(stderr=True)
    if progress is False or not (progress or _looked_at(console)):
        yield lambda *_: None
    elif _looked_at(console):
        with _bar(console) as bar:
            task = bar.add_task(title, total=total, completed=done, examples=0)
            yield lambda batches, examples: bar.update(
                task, completed=batches, examples=examples
            )
            # Now the length is known, and the bar may come to rest.
            bar.update(task, total=bar.tasks[0].completed)
    else:
        yield _lines(console, total, title)


def _looked_at(console: Console) -> bool:
    return console.is_terminal or console.is_jupyter


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("batches, {task.fields[examples]:,} examples"),
        TaskProgressColumn(show_speed=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _lines(console: Console, total: int | None, title: str) -> Advance:
    last = time.monotonic()
    of = "" if total is None else f" of {total}"

    def advance(batches: int, examples: int) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS or batches == total:
            last = time.monotonic()
            said = f"{title}: {batches}{of} batches, {examples:,} examples"
            console.print(said, highlight=False, soft_wrap=True)

    return advance
