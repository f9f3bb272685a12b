"""Writing a run: records go to disk at once, and no trouble of the disk comes back."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from .._errors import GradwatchError
from ..summarise import BUCKETS, COLUMNS
from ._codec import FINDINGS, NOTES, Tags, describe, json_value, values
from ._file import EventFile
from ._framing import frame
from ._layout import Layout, Record
from ._native import Throttle, native_histograms, native_scalars, native_text
from ._protos import protos

_PATIENCE = 1.0  # seconds between attempts while the disk fails
_LOST = {
    "record": "The record is dropped. ",
    "finding": "The finding is dropped. ",
    "extra": "",  # comes again
}


class RunWriter:
    """Writes a run as a TensorBoard event file, and nothing else.

    Each record is in the file when `write` returns: a process that is killed loses
    none. A disk that is full, gone or read-only is one warning; what could not be
    written is dropped and counted, and recording resumes when it can. A step that is
    not later than the one before it starts the run again from there: the steps from it
    on are superseded, here and in TensorBoard.

    Example:
    >>> from gradwatch.run import Layout, Record, open_run
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> layout = Layout(("dense/kernel",), ("weight",), (6,))
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> with RunWriter("runs/a") as writer:
    ...     writer.write(Record(0, layout, rows, None, {"global_norm": 0.5}))
    >>> open_run("runs/a")["dense/kernel"].norm.tolist()
    [0.5]

    Args:
        directory: Where the file goes; made when the first record is written.
        native_every_seconds: How often at most the curves are written that TensorBoard
            shows by itself; histograms a tenth as often. The first and the last record
            always are. 0 for every record, `None` for never.

    Attributes:
        directory: Where the file goes.
        dropped: How many records and findings could not be written.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        native_every_seconds: float | None = 1.0,
    ) -> None:
        self.directory = Path(directory)
        # Absolute, so that a training script may change its working directory.
        with contextlib.suppress(OSError):  # unless that was deleted
            self.directory = Path(os.path.abspath(directory))
        self.dropped = 0
        self._scalars = self._histograms = None
        if native_every_seconds is not None:
            self._scalars = Throttle(native_scalars, native_every_seconds)
            # Thirteen times as large, and TensorBoard draws only a few.
            self._histograms = Throttle(native_histograms, 10 * native_every_seconds)
        self._file = EventFile(self.directory)
        self._layout = Layout((), (), ())
        self._tags = Tags(self._layout)
        self._told: set[str] = set()  # tags whose metadata the file holds
        self._step: int | None = None  # of the last record
        self._start: int | None = None  # where the run was started last
        self._started = False  # whether that is in this file
        self._notes: dict[str, Mapping[str, Any]] = {}
        self._notes_wait: set[str] = set()
        self._retry_at = float("-inf")
        self._warned = False
        self._lost: dict[str, int] = {}
        # Findings may come from a thread of their own.
        self._lock = threading.RLock()
        protos()  # imported here and now, not by the thread that writes first

    def write(self, record: Record) -> None:
        """Writes one recorded step."""
        _check(record)
        with self._lock:
            tags = self._tags_of(record.layout)

            def make(told: set[str]) -> list[Any]:
                found = values(record, tags)
                for value in found:
                    if value.tag not in told:
                        describe(value, tags.meta[value.tag])
                return found

            if not self._put(record.step, make, "record"):
                return
            again = self._step is not None and record.step <= self._step
            if again and self._histograms is not None:
                self._histograms.waits = None  # superseded
            self._step = record.step
            if self._scalars is not None:
                self._scalars.waits = record
            if self._histograms is not None and record.histograms is not None:
                self._histograms.waits = record
            self._write_native(due=True)

    def finding(
        self, step: int, payload: Mapping[str, Any], text: str | None = None
    ) -> None:
        """Writes something that was found at a step; `text` is for the Text tab."""

        def make(_: set[str]) -> list[Any]:
            shown = [] if text is None else [native_text(text)]
            return [json_value(FINDINGS, payload), *shown]

        with self._lock:
            self._put(step, make, "finding")

    def note(self, key: str, payload: Mapping[str, Any]) -> None:
        """Notes facts of the run as a whole; the last of a key wins.

        Facts that are noted before the first record are written together with it.
        """
        with self._lock:
            self._notes[key] = dict(payload)
            self._notes_wait.add(key)
            if self._step is not None:
                self._put(self._step, lambda _: [])

    def flush(self) -> None:
        """Writes what TensorBoard shows of the last record, if it is not there."""
        with self._lock:
            self._write_native(due=False)
            if self._notes_wait:
                self._put(self._step or 0, lambda _: [])

    def close(self) -> None:
        """Writes what is left and closes the file; a later `write` makes a new one."""
        with self._lock:
            self._retry_at = float("-inf")
            self.flush()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _tags_of(self, layout: Layout) -> Tags:
        # Mostly it is the very layout of the step before: no need to compare names.
        if layout is not self._layout and layout != self._layout:
            self._tags = Tags(layout)
            self._layout = layout
        return self._tags

    # the disk -------------------------------------------------------------------------

    def _write_native(self, *, due: bool) -> None:
        """Writes what waits for TensorBoard's own tabs: all of it, or what is due."""
        now = time.monotonic()
        for throttle in (self._scalars, self._histograms):
            if throttle is not None and (not due or throttle.is_due(now)):
                record = throttle.waits
                if record is not None:
                    make = partial(throttle.make, record)
                    if self._put(record.step, make):
                        throttle.done(now)

    def _put(
        self,
        step: int,
        make: Callable[[set[str]], list[Any]],
        what: str = "extra",
    ) -> bool:
        """Appends one event with what goes before it; tells whether it is on disk."""
        if time.monotonic() < self._retry_at:
            self._drop(step, what)
            return False
        try:
            new = not self._file.is_current()
            if new:
                self._file.open()
            new = self._file.is_empty
            told = set() if new else self._told
            starts = self._starts(step, what, new)
            found = make(told)
            keys = set(self._notes) if new else set(self._notes_wait)
            notes = [json_value(NOTES + key, self._notes[key]) for key in sorted(keys)]
            if found or notes:
                summary = {"value": found + notes}
                head = _preamble(step, new=new, starts=starts)
                self._file.append(head + _event(step, summary=summary))
        except OSError as error:
            self._failed(error, step, what)
            return False
        self._told = told | {value.tag for value in found}
        self._notes_wait -= keys
        self._started = starts or (self._started and not new)
        self._start = step if starts else self._start
        if self._lost:
            # In the run itself, so that who reads it later knows of the gap.
            lost, self._lost = self._lost, {}
            self.note("dropped", {**lost, "count": self.dropped})
        return True

    def _starts(self, step: int, what: str, new: bool) -> bool:
        """Tells whether the run starts (again) here: later steps are superseded.

        Each file has a start, because TensorBoard takes the first one it meets for the
        beginning of the run. A finding is no start, unless nothing came before it: it
        may speak of an earlier step.
        """
        if what == "record":
            before = self._step is not None and step <= self._step
            before |= self._start is not None and step < self._start
            return new or not self._started or before
        return what == "finding" and self._start is None

    def _failed(self, error: OSError, step: int, what: str) -> None:
        self._retry_at = time.monotonic() + _PATIENCE
        self._drop(step, what)
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"gradwatch could not write step {step} to '{self.directory}': "
                f"{error.strerror or error}. {_LOST[what]}Training goes on, and "
                "recording resumes when writing works again. This is said once.",
                RuntimeWarning,
                stacklevel=4,
            )

    def _drop(self, step: int, what: str) -> None:
        if what != "extra":
            self.dropped += 1
            self._lost.setdefault("first_step", step)
            self._lost["last_step"] = step


def _preamble(step: int, *, new: bool, starts: bool) -> bytes:
    """Returns the events before the first one of a file, and before a restart."""
    head = b""
    if new:
        head += _event(0, file_version="brain.Event:2")
    if starts:
        # TensorBoard then forgets what it knows from this step on.
        start = protos().SessionLog(status=protos().SessionLog.START)
        head += _event(step, session_log=start)
    return head


def _event(step: int, **what: Any) -> bytes:
    event = protos().Event(wall_time=time.time(), step=step, **what)
    data: bytes = event.SerializeToString()
    return frame(data)


def _check(record: Record) -> None:
    """Refuses a matrix that would come back as other lines or columns."""
    lines = len(record.layout)
    if record.rows.shape != (lines, len(COLUMNS)):
        raise GradwatchError(
            f"`record.rows` must be of shape {(lines, len(COLUMNS))}, a line for each "
            f"name of its layout. Received: shape {record.rows.shape}. Build it with "
            "`gradwatch.summarise.blank`."
        )
    counts = record.histograms
    if counts is not None and counts.shape != (lines, BUCKETS):
        raise GradwatchError(
            f"`record.histograms` must be of shape {(lines, BUCKETS)}, or `None`. "
            f"Received: shape {counts.shape}. Give a line for each name of the layout."
        )
