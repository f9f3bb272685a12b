"""The door: follows a run that another process writes."""

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

from ..._errors import GradwatchError, counted
from ...run import open_run
from .._format import printable
from ._draw import Picture, showable
from ._lines import finding_line
from ._live import LiveRun

FASTEST = 2.0
"""Redraws a second: eyes need no more, and the training needs the processor."""

Why = Literal["ended", "stopped", "interrupted", "once"]
"""Why following a run is over: it ended, `stop` was set, Ctrl-C, or once was enough."""


def follow(
    path: str | os.PathLike[str],
    *,
    console: Console | None = None,
    stop: threading.Event | None = None,
    refresh: float = FASTEST,
    once: bool = False,
) -> Why:
    """Shows a training in the terminal while it runs, in whatever process.

    A headline, the layers with the curve of their gradient's norm, and what was found.
    Where there are more layers than lines, the worst are shown. A run that is not there
    yet is waited for; one that has ended is shown once more, and that is all. If the
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
        path: The directory of the run. It need not be there yet.
        console: Where to show it; the standard output without.
        stop: Ends it when set.
        refresh: Redraws a second, at most 2.
        once: Shows what there is now, and returns.

    Returns:
        Why it is over: "ended", "stopped", "interrupted" or "once".

    Raises:
        GradwatchError: If `refresh` is not in its range, or `path` is a file.
        RunError: If there is no run to show once, or it is of a newer version.
    """
    if not 0 < refresh <= FASTEST:
        raise GradwatchError(
            f"`refresh` must be above 0, and at most {FASTEST:g} redraws a second. "
            f"Received: {refresh!r}. Leave it out for {FASTEST:g}."
        )
    place = Path(path)
    if place.is_file():
        open_run(place)  # raises: it is no directory
    console = console or Console(highlight=False)
    run = _Followed(place)
    if once:
        while not run.look():
            pass
        if not run.live.reader.ours:
            open_run(place)  # raises, and says what is there instead
        notice = run.notice if run.live.records else run.nothing
        console.print(Picture(str(place), run.live, notice, _tall(console)))
        return "once"
    watched = console.is_terminal and not console.is_dumb_terminal
    seen = _Screen(console, run) if watched else _Lines(console, run)
    return _until_over(run, seen, stop or threading.Event(), 1 / refresh)


class _Followed:
    """A run, what is known of it, and what went wrong while reading it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.live = LiveRun(place)
        self.notice = ""
        self._lost = False
        self._damage = ""

    @property
    def over(self) -> bool:
        return self.live.store.ended

    def look(self) -> bool:
        """Reads what is new, for a moment; returns whether that was all."""
        trouble = ""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                if self.live.reader.lost():
                    self.live = LiveRun(self.place)
                    self._lost, self._damage = True, ""
                everything = self.live.reader.read(0.25)
            except OSError as error:
                trouble = f"{str(self.place)!r} cannot be read: {error.strerror}."
                everything = True
        if said:
            self._damage = str(said[-1].message)
        waiting = "" if self.live.records or self.over else self._waits_for
        self.notice = trouble or self._damage or waiting
        if everything:
            self.live.arrived()
        return everything

    @property
    def nothing(self) -> str:
        """What to say of a run without a record to whoever does not wait for one."""
        return self._damage or f"{str(self.place)!r} has no record."

    @property
    def _waits_for(self) -> str:
        name = repr(str(self.place))
        if self._lost:
            return f"{name} was deleted or cut short. Waiting for it to be written."
        what = "the first record of" if self.place.is_dir() else "the run"
        return f"Waiting for {what} {name}. Ctrl-C ends this."


def _until_over(
    run: _Followed, seen: _Screen | _Lines, stop: threading.Event, pause: float
) -> Why:
    why: Why = "stopped"
    try:
        with seen:
            while not stop.is_set():
                began = time.monotonic()
                everything = run.look()
                while not everything and time.monotonic() < began + pause:
                    everything = run.look()
                seen.update()
                if everything and run.over:
                    why = "ended"
                    break
                stop.wait(max(0.0, pause - (time.monotonic() - began)))
    except KeyboardInterrupt:
        why = "interrupted"
    seen.last(why)
    return why


class _Screen:
    """A terminal: the picture is drawn anew in its place."""

    def __init__(self, console: Console, run: _Followed) -> None:
        self._console = console
        self._run = run
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def update(self) -> None:
        run = self._run
        picture = Picture(str(run.place), run.live, run.notice)
        self._live.update(picture, refresh=True)

    def last(self, why: Why) -> None:
        """The screen of before is back: the last picture stays in it."""
        run = self._run
        if run.live.records:
            tall = _tall(self._console)
            picture = Picture(str(run.place), run.live, run.notice, tall)
            self._console.print(picture)
        farewell = showable(_farewell(run, why), self._console.encoding)
        self._console.print(Text(farewell))


class _Lines:
    """No terminal: one line for each finding."""

    def __init__(self, console: Console, run: _Followed) -> None:
        self._console = console
        self._run = run
        self._told: set[str] = set()

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def update(self) -> None:
        for finding in self._run.live.store.findings:
            line = finding_line(finding)
            if line not in self._told:  # also not when training went back
                self._told.add(line)
                self._say(line)

    def last(self, why: Why) -> None:
        self._say(_farewell(self._run, why))

    def _say(self, line: str) -> None:
        self._console.print(
            Text(showable(line, self._console.encoding)), soft_wrap=True
        )


def _tall(console: Console) -> int:
    """For a picture that stays: what is said last and the prompt fit below."""
    return max(8, console.size.height - 3) if console.is_terminal else 1_000


def _farewell(run: _Followed, why: Why) -> str:
    live, name = run.live, printable(str(run.place))
    found = counted(len(live.store.findings), "finding")
    if why == "ended" and not live.records:
        return f"{name}: the training ended; no step was recorded."
    if why == "ended":
        return f"{name}: the training ended after step {live.store.last:,}; {found}."
    how = "interrupted" if why == "interrupted" else "stopped looking"
    if not live.records:
        return f"{name}: {how}; no record was there yet."
    return f"{name}: {how} at step {live.store.last:,}; {found}."
