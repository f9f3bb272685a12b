"""Follows a run that another process writes."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from typing import Literal

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..._errors import arg, counted, require
from ...run import Reader, Run
from .._format import printable
from ._draw import Picture, showable
from ._rows import KEPT, finding_line

FASTEST = 2.0
"""Maximum redraws per second: the training needs the processor."""

Why = Literal["ended", "stopped", "interrupted", "once"]
"""The reason to stop: the run ended, `stop` was set, Ctrl-C, or `once`."""


def follow(
    path: str | os.PathLike[str],
    *,
    console: Console | None = None,
    stop: Event | None = None,
    refresh: float = FASTEST,
    once: bool = False,
) -> Why:
    """Shows a training in the terminal while it runs, in any process.

    It shows a headline, the layers with the curve of their gradient's norm, and the
    findings. Where there are more layers than lines, the worst are shown. A run that
    does not exist yet is waited for; one that has ended is shown a last time. If the
    console is no terminal, each finding is one line, and the end another.

    Example:
    >>> import io
    >>> from rich.console import Console
    >>> from gradwatch.run import Layout, Record, RunWriter
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> with RunWriter("runs/l") as writer:
    ...     writer.write(
    ...         Record(0, Layout(("a/kernel",), ("weight",), (6,)), rows, None, {})
    ...     )
    ...     writer.note("overhead", {"steps": 1, "seconds": 0.1})
    >>> follow("runs/l", console=Console(file=io.StringIO()))
    'ended'

    Args:
        path: The directory of the run. It need not exist yet.
        console: The console to print on (default: the standard output).
        stop: Ends it when set.
        refresh: Redraws per second, at most 2.
        once: True to show the run as it is now, and return.

    Returns:
        The reason it stopped: "ended", "stopped", "interrupted" or "once".

    Raises:
        GradwatchError: If `refresh` is not in its range, or `path` is a file.
        RunError: If there is no run to show once, or it is of a newer version.
    """
    rule = f"{arg('refresh')} must be above 0, and at most {FASTEST:g} redraws a "
    way_out = f"Leave it out for {FASTEST:g}."
    require(0 < refresh <= FASTEST, f"{rule}second.", refresh, way_out)
    reader = Reader(Path(path), window=KEPT)
    if reader.directory.is_file():
        reader.check()  # raises: it is no directory
    console = console or Console(highlight=False)
    picture = Picture(Run(reader))
    if once:
        while not picture.refresh():
            pass
        reader.check()
        if not picture.run.num_records:
            name = repr(str(reader.directory))
            picture.notice = picture.damage or f"{name} has no record."
        console.print(picture, height=_tall(console))
        return "once"
    return _until_over(picture, console, stop or Event(), 1 / refresh)


def _until_over(picture: Picture, console: Console, stop: Event, pause: float) -> Why:
    """Redraws the picture in a terminal; elsewhere each finding is one line."""
    run, printed = picture.run, set[str]()
    why: Why = "stopped"
    watched = console.is_terminal and not console.is_dumb_terminal
    live = Live(console=console, screen=True, auto_refresh=False) if watched else None
    try:
        with live or nullcontext():
            while not stop.is_set():
                began = time.monotonic()
                everything = picture.refresh()
                while not everything and time.monotonic() < began + pause:
                    everything = picture.refresh()
                if live is not None:
                    live.update(picture, refresh=True)
                else:
                    # Each once, also if training went back.
                    for line in map(finding_line, run.findings):
                        if line not in printed:
                            text = Text(showable(line, console.encoding))
                            console.print(text, soft_wrap=True)
                        printed.add(line)
                if everything and run.ended:
                    why = "ended"
                    break
                stop.wait(max(0.0, pause - (time.monotonic() - began)))
    except KeyboardInterrupt:
        why = "interrupted"
    if watched and run.num_records:  # on the screen of before, where it stays
        console.print(picture, height=_tall(console))
    farewell = Text(showable(_farewell(run, why), console.encoding))
    console.print(farewell, soft_wrap=not watched)
    return why


def _tall(console: Console) -> int:
    """Returns the height of a picture that stays: a line and the prompt fit below."""
    return max(8, console.size.height - 3) if console.is_terminal else 1_000


def _farewell(run: Run, why: Why) -> str:
    how = {"ended": "the training ended", "interrupted": "interrupted"}
    words = f"{printable(str(run.directory))}: {how.get(why, 'stopped looking')}"
    ended = why == "ended"
    none = "step was recorded" if ended else "record was there yet"
    if not run.num_records:
        return f"{words}; no {none}."
    at = f"{'after' if ended else 'at'} step {run.store.last:,}"
    return f"{words} {at}; {counted(len(run.findings), 'finding')}."
