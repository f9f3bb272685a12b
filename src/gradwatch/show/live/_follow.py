"""Follows a run that another process writes."""

from __future__ import annotations

import os
import threading
import time
import warnings
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..._errors import GradwatchError, arg, counted
from ...run import Reader, Run
from .._format import printable
from ._draw import Picture, showable
from ._pace import Pace
from ._rows import KEPT, finding_line

FASTEST = 2.0
"""Maximum redraws per second: the training needs the processor."""

Why = Literal["ended", "stopped", "interrupted", "once"]
"""The reason to stop: the run ended, `stop` was set, Ctrl-C, or `once`."""


def follow(
    path: str | os.PathLike[str],
    *,
    console: Console | None = None,
    stop: threading.Event | None = None,
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
    if not 0 < refresh <= FASTEST:
        raise GradwatchError(
            f"{arg('refresh')} must be above 0, and at most {FASTEST:g} redraws a "
            f"second. Received: {refresh!r}. Leave it out for {FASTEST:g}."
        )
    reader = Reader(Path(path), window=KEPT)
    if reader.directory.is_file():
        reader.check()  # raises: it is no directory
    console = console or Console(highlight=False)
    followed = _Followed(Run(reader))
    if once:
        while not followed.refresh():
            pass
        reader.check()
        if not followed.run.num_records:
            name = repr(str(reader.directory))
            followed.notice = followed.damage or f"{name} has no record."
        console.print(followed.picture(_tall(console)))
        return "once"
    watched = console.is_terminal and not console.is_dumb_terminal
    output = _Screen(console, followed) if watched else _FindingLines(console, followed)
    return _until_over(followed, output, stop or threading.Event(), 1 / refresh)


class _Followed:
    """A run, its pace, and what went wrong while reading it.

    Attributes:
        notice: A line for the reader of the picture.
        damage: The last warning about a damaged file.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.notice = self.damage = ""
        self._pace = Pace()

    def picture(self, height: int | None = None) -> Picture:
        """Returns the run as it is now."""
        name = str(self.run.directory)
        return Picture(name, self.run, self._pace, self.notice, height)

    def refresh(self) -> bool:
        """Reads what is new, for a short time; returns whether that was all."""
        trouble = ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                everything = self.run.refresh(0.25)
            except OSError as error:
                name = str(self.run.directory)
                trouble = f"{name!r} cannot be read: {error.strerror}."
                everything = True
        if caught:
            self.damage = str(caught[-1].message)
        elif self.run.deleted and not self.run.num_records:
            self.damage = ""  # the file that was damaged is gone
        waiting = not self.run.num_records and not self.run.ended
        self.notice = trouble or self.damage or (self._waits_for if waiting else "")
        if everything:
            self._pace.update(self.run)
        return everything

    @property
    def _waits_for(self) -> str:
        name = repr(str(self.run.directory))
        if self.run.deleted:
            return f"{name} was deleted or cut short. Waiting for it to be written."
        what = "the first record of" if self.run.directory.is_dir() else "the run"
        return f"Waiting for {what} {name}. Ctrl-C ends this."


def _until_over(
    followed: _Followed,
    output: _Screen | _FindingLines,
    stop: threading.Event,
    pause: float,
) -> Why:
    why: Why = "stopped"
    try:
        with output:
            while not stop.is_set():
                began = time.monotonic()
                everything = followed.refresh()
                while not everything and time.monotonic() < began + pause:
                    everything = followed.refresh()
                output.update()
                if everything and followed.run.ended:
                    why = "ended"
                    break
                stop.wait(max(0.0, pause - (time.monotonic() - began)))
    except KeyboardInterrupt:
        why = "interrupted"
    output.last(why)
    return why


class _Screen:
    """A terminal: the picture is redrawn in the same place."""

    def __init__(self, console: Console, followed: _Followed) -> None:
        self._console = console
        self._followed = followed
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def update(self) -> None:
        self._live.update(self._followed.picture(), refresh=True)

    def last(self, why: Why) -> None:
        """Prints the last picture on the screen of before, where it stays."""
        if self._followed.run.num_records:
            self._console.print(self._followed.picture(_tall(self._console)))
        farewell = showable(_farewell(self._followed.run, why), self._console.encoding)
        self._console.print(Text(farewell))


class _FindingLines:
    """No terminal: one line for each finding."""

    def __init__(self, console: Console, followed: _Followed) -> None:
        self._console = console
        self._run = followed.run
        self._printed: set[str] = set()

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def update(self) -> None:
        for finding in self._run.findings:
            line = finding_line(finding)
            if line not in self._printed:  # nor once more if training went back
                self._printed.add(line)
                self._print(line)

    def last(self, why: Why) -> None:
        self._print(_farewell(self._run, why))

    def _print(self, line: str) -> None:
        self._console.print(
            Text(showable(line, self._console.encoding)), soft_wrap=True
        )


def _tall(console: Console) -> int:
    """Returns the height of a picture that stays: a line and the prompt fit below."""
    return max(8, console.size.height - 3) if console.is_terminal else 1_000


def _farewell(run: Run, why: Why) -> str:
    name = printable(str(run.directory))
    how = {"ended": "the training ended", "interrupted": "interrupted"}
    words = f"{name}: {how.get(why, 'stopped looking')}"
    if not run.num_records:
        ended = why == "ended"
        return (
            f"{words}; no {'step was recorded' if ended else 'record was there yet'}."
        )
    when = "after" if why == "ended" else "at"
    many = counted(len(run.findings), "finding")
    return f"{words} {when} step {run.store.last:,}; {many}."
