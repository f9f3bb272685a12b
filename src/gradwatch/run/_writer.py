"""Writing a run: records go to disk at once, and no trouble of the disk comes back.

The worker thread of a monitor writes records and findings. The training thread notes
facts, may add a finding of its own, and closes the writer when the worker is done. One
lock serialises all of these calls. Each of them, in order:

1. Checks that the file can still be appended to, and otherwise makes a new one (the
   first time, after a fork, after the directory was deleted, after a torn write).
2. Encodes the records. Metadata are added to tags that this file does not hold yet,
   and a start of a session where the run begins or goes back to an earlier step.
   Notes that wait are added to the first event.
3. Appends all of that with one `write`. Only then is anything marked as written: if
   the disk fails, metadata, start and notes go with the next record instead.
4. If that failed, the records are dropped and counted, one warning is given, and for
   `_PATIENCE` seconds nothing is tried: a training must not wait for a dead disk. The
   gap is noted in the run itself when the disk is back.
5. Writes scalars and histograms for TensorBoard's own tabs as events of their own, at
   a modest rate. They are a repetition: losing one is not counted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from .._errors import GradwatchError
from ..summarise import BUCKETS
from ._codec import FINDINGS, NOTES, Encoder, encode_facts
from ._event_file import EventFile, event, protos
from ._native import Throttle, native_histograms, native_scalars, native_text
from ._schema import Layout, Record

_PATIENCE = 1.0  # seconds between attempts while the disk fails

Event = tuple[int, Callable[[set[str]], list[Any]]]
"""A step, and what makes its values, given the tags whose metadata a file holds."""
What = Literal["record", "finding", "extra"]
"""Content of an event. An "extra" (notes, native summaries) is written again later."""


class RunWriter(contextlib.AbstractContextManager["RunWriter"]):
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
        directory: The directory for the file; made when the first record is written.
        native_every_seconds: Seconds between the scalars that TensorBoard shows by
            itself; histograms are written a tenth as often. The first and the last
            record always are. 0 for every record, `None` for never.

    Attributes:
        directory: The directory for the file.
        dropped: Number of records and findings that could not be written.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        native_every_seconds: float | None = 1.0,
    ) -> None:
        self._file = EventFile(directory)
        self.directory = self._file.directory
        self.dropped = 0
        self._native: tuple[Throttle, ...] = ()
        if (every := native_every_seconds) is not None:
            # Histograms are 13 times as large, and TensorBoard draws only a few.
            slow = Throttle(native_histograms, 10 * every, histograms=True)
            self._native = (Throttle(native_scalars, every), slow)
        self._encoder = Encoder(Layout((), (), ()))
        self._step: int | None = None  # of the last record
        self._start: int | None = None  # where the run was started last
        self._notes: dict[str, Mapping[str, Any]] = {}
        self._unwritten: set[str] = set()  # keys of notes
        self._retry_at = float("-inf")
        self._warned = False
        self._gap: dict[str, int] = {}  # first and last step that were dropped of late
        # Reentrant: a write that succeeds after a gap notes the gap.
        self._lock = threading.RLock()
        protos()  # imported here and now, not by the thread that writes first

    def write(self, *records: Record) -> None:
        """Writes recorded steps, in their order; all of them with one call to disk."""
        for at, record in enumerate(records):
            _check(record)
            if at and record.step <= records[at - 1].step:  # the training went back
                self.write(*records[:at])
                self.write(*records[at:])
                return
        with self._lock:
            events = [
                (record.step, partial(self._encoder_of(record).encode, record))
                for record in records
            ]
            if not records or not self._put(events, "record"):
                return
            self._step = records[-1].step
            for throttle in self._native:
                throttle.offer(*records)
            self._write_native(time.monotonic())

    def _encoder_of(self, record: Record) -> Encoder:
        # Mostly it is the very layout of the step before: no need to compare names.
        known = self._encoder.layout
        if record.layout is not known and record.layout != known:
            self._encoder = Encoder(record.layout)
        return self._encoder

    def finding(
        self, step: int, payload: Mapping[str, Any], text: str | None = None
    ) -> None:
        """Writes a finding that was made at a step; `text` is for the Text tab."""
        values = [encode_facts(FINDINGS, payload)]
        values += [] if text is None else [native_text(text)]
        with self._lock:
            self._put([(step, lambda _: values)], "finding")

    def note(self, key: str, payload: Mapping[str, Any]) -> None:
        """Notes facts of the run as a whole; the last of a key wins.

        Facts that are noted before the first record are written together with it.
        """
        with self._lock:
            self._notes[key] = dict(payload)
            self._unwritten.add(key)
            if self._step is not None:
                self._put([(self._step, lambda _: [])])

    def flush(self) -> None:
        """Writes what TensorBoard shows of the last record, if it is not there."""
        with self._lock:
            self._write_native(None)
            if self._unwritten:
                self._put([(self._step or 0, lambda _: [])])

    def close(self) -> None:
        """Writes what is left and closes the file; a later `write` makes a new one."""
        with self._lock:
            self._retry_at = float("-inf")
            self.flush()
            self._file.close()

    def __exit__(self, *exception: object) -> None:
        self.close()

    # the disk -------------------------------------------------------------------------

    def _write_native(self, now: float | None) -> None:
        """Writes what waits for TensorBoard's own tabs: what is due now, or all."""
        for throttle in self._native:
            record = throttle.due(now)
            if record and self._put([(record.step, partial(throttle.make, record))]):
                throttle.done(time.monotonic())

    def _put(self, events: Sequence[Event], what: What = "extra") -> bool:
        """Appends events and what goes with them; returns whether they are on disk.

        Args:
            events: The step of each, and what makes its values, given the tags whose
                metadata the file holds.
            what: Their content.
        """
        if time.monotonic() < self._retry_at:
            self._drop(events, what)
            return False
        file, step = self._file, events[0][0]
        try:
            file.prepare()
            starts = self._starts(step, what)
            # Each file holds all notes, so that it can be read by itself.
            keys = set(self._notes) if file.is_empty else set(self._unwritten)
            notes = [encode_facts(NOTES + k, self._notes[k]) for k in sorted(keys)]
            parts, tags = [], set(file.tags)
            if starts:  # TensorBoard forgets what it knows from this step on
                start = protos().SessionLog(status=protos().SessionLog.START)
                parts.append(event(step, session_log=start))
            for at, make in events:
                values = make(tags)
                tags |= {value.tag for value in values}
                if values or notes:
                    parts.append(event(at, summary={"value": values + notes}))
                notes = []
            if parts:
                file.append(b"".join(parts))
        except OSError as error:
            self._failed(error, events, what)
            return False
        # All of it is on disk: now, and not before, it is marked as written.
        file.tags |= tags
        self._unwritten -= keys
        if starts:
            file.started, self._start = True, step
        if self._gap:
            gap, self._gap = self._gap, {}
            self.note("dropped", {**gap, "count": self.dropped})
        return True

    def _starts(self, step: int, what: What) -> bool:
        """Returns whether the run starts (again) here: later steps are superseded.

        Each file has a start, because TensorBoard takes the first one it meets for the
        beginning of the run. A finding is no start, unless nothing came before it: it
        may be about an earlier step.
        """
        if what == "record":
            back = self._step is not None and step <= self._step
            back |= self._start is not None and step < self._start
            return back or not self._file.started
        return what == "finding" and self._start is None

    def _failed(self, error: OSError, events: Sequence[Event], what: What) -> None:
        self._retry_at = time.monotonic() + _PATIENCE
        self._drop(events, what)
        if not self._warned:
            self._warned = True
            dropped = "" if what == "extra" else f"The {what} is dropped. "
            warnings.warn(
                f"gradwatch could not write step {events[0][0]} to "
                f"'{self.directory}': {error.strerror or error}. {dropped}Training "
                "goes on, and recording resumes when writing works again. This is "
                "said once.",
                RuntimeWarning,
                stacklevel=4,
            )

    def _drop(self, events: Sequence[Event], what: What) -> None:
        if what != "extra":
            self.dropped += len(events)
            self._gap.setdefault("first_step", events[0][0])
            self._gap["last_step"] = events[-1][0]


def _check(record: Record) -> None:
    """Refuses matrices that would come back as other rows or columns."""
    layout = record.layout
    rows = (len(layout), len(layout.columns))
    wanted: dict[str, tuple[Any, tuple[int, ...]]] = {"rows": (record.rows, rows)}
    if record.histograms is not None:
        wanted["histograms"] = (record.histograms, (len(layout), BUCKETS))
    if record.replicas is not None:
        wanted["replicas"] = (record.replicas, (len(record.replicas), *rows))
    for name, (array, shape) in wanted.items():
        if array.shape != shape:
            raise GradwatchError(
                f"`record.{name}` must be of shape {shape}, with a row for each name "
                f"of its layout. Received: shape {array.shape}. Build it with "
                "`gradwatch.summarise.blank`."
            )
