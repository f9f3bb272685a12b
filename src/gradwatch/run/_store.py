"""The column store: the numbers of a run in memory, column by column.

One writer, many readers, no lock: a `Reader` appends records as it decodes them, in the
order of the files, and the rules, the tab, the report, the terminal and the tables read
the same columns, on the same thread. A view that serves several threads (the tab) holds
a lock of its own around both.

Records lie in chunks: consecutive steps of one layout, as one array `[columns, steps,
rows]`, so that a column of many steps is contiguous. A chunk is allocated once and
filled from the front. A new one begins when it is full, or when the layout changes
(layers were unfrozen). Three things happen to a run beside appending:

* The training goes back to an earlier step (it was restarted from a checkpoint):
  `restart` cuts the chunks there, and the findings with them.
* A live view has a `window`: whole chunks are dropped from the front once enough
  records follow them. Only their steps are kept, to count them.
* The files vanish: `clear`.

Whatever is handed out as an array of the whole run (`series`, `totals`, `steps`) is a
copy, and stays as it is when the run grows. `version` changes with every change.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summarise import BUCKETS, COLUMNS, blank, is_blank
from ._codec import NOTES, Counts, Value, record_of
from ._schema import TOTALS, Layout, Record, in_order, known_first, measured
from ._series import Histograms, Series, Totals

_CELLS = 2**20  # numbers in a chunk: few enough for the cache of a processor
_LEAST, _MOST = 16, 1024  # steps in a chunk
_NONFINITE = [COLUMNS.index(name) for name in ("nan", "posinf", "neginf")]

_IDENTITY = ("symptom", "addresses", "since", "step", "measured")
"""Fields by which two reports of one finding are recognised."""

Rows = tuple[NDArray[np.int_], NDArray[np.int_]] | tuple[None, None]
"""Indices among the names of a kind, and the rows of a chunk that go there."""

Key = tuple[str, str]
"""The kind and the name of a row."""


class Chunk:
    """Consecutive steps of one layout.

    Args:
        layout: The names of its rows, columns and totals.
        most: Maximum number of steps.
        before: The norms of the step before the first, if its layout is the same.

    Attributes:
        data: float64, `[columns, steps, rows]`, of which `count` steps are filled.
        steps: The steps.
        totals: float64, `[totals, steps]`.
        counts: The histograms of each step, or None.
        replicas: The rows of each replica at each step, or None.
        count: Number of steps that are filled.
        finite: True if no element of any tensor was NaN or infinite.
    """

    def __init__(
        self, layout: Layout, most: int, before: NDArray[np.float64] | None
    ) -> None:
        columns, rows = len(layout.columns), len(layout)
        room = min(max(_CELLS // max(1, rows * columns), _LEAST), most)
        self.layout, self.before = layout, before
        self.data = np.empty((columns, room, rows))
        self.steps = np.empty(room, np.int64)
        self.totals = blank((len(layout.totals), room))
        self.counts: list[Counts | None] = []
        self.replicas: list[NDArray[np.float64] | None] = []
        self.count, self.finite = 0, True

    def column(self, name: str) -> NDArray[np.float64]:
        """Returns one column, `[steps, rows]`; `blank` if the layout lacks it."""
        return _named(name, self.layout.columns, self.data[:, : self.count])

    def total(self, name: str) -> NDArray[np.float64]:
        """Returns one total, `[steps]`; `blank` if the layout lacks it."""
        return _named(name, self.layout.totals, self.totals[:, : self.count])

    def append(self, record: Record, counts: Counts | None) -> None:
        """Appends a record."""
        at = self.count
        self.data[:, at] = record.rows.T
        # Counts of NaN and infinities: of a chunk that has none, charts need no flags.
        bad = record.rows[:, _NONFINITE]
        if bad.any() and bool((bad[~is_blank(bad)] != 0).any()):
            self.finite = False
        self.steps[at] = record.step
        # `blank` where absent: the room may hold what a restart has cut off.
        self.totals[:, at] = in_order(self.layout.totals, record.totals)
        self.counts.append(counts)
        self.replicas.append(record.replicas)
        self.count += 1

    def cut(self, step: int) -> None:
        """Forgets the steps from this one on."""
        self.count = int(np.searchsorted(self.steps[: self.count], step))
        del self.counts[self.count :], self.replicas[self.count :]


class Store:
    """A run in memory.

    Example:
    >>> from gradwatch.run import Layout, Record
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> store = Store()
    >>> store.append(
    ...     Record(7, Layout(("a/kernel",), ("weight",), (6,)), rows, None, {})
    ... )
    >>> len(store), store.names("weight"), store.first, store.last
    (1, ('a/kernel',), 7, 7)

    Args:
        window: Minimum number of the newest records to keep (default: all). A run of
            days must not fill the memory of a terminal that shows its newest records.

    Attributes:
        chunks: The recorded steps, ascending; no chunk is empty.
        passed: The steps whose records were dropped because of `window`.
        notes: Facts of the run as a whole.
        ended: True if the training is over, as far as has been read.
        version: A number that is another one whenever something has changed.
        restarts: Number of times that the training began, or went back.
    """

    def __init__(self, window: int | None = None) -> None:
        self.chunks: list[Chunk] = []
        self.passed: list[int] = []
        self.notes: dict[str, dict[str, Any]] = {}
        self.ended = False
        self.version = 0
        self.restarts = 0
        self._window = window
        self._findings: list[tuple[int, dict[str, Any]]] = []
        self._layouts: tuple[Layout, ...] = ()
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._rows: dict[tuple[Layout, str], Rows] = {}

    # writing --------------------------------------------------------------------------

    def restart(self, step: int) -> None:
        """Forgets what is known from this step on: the training went back to it."""
        self.version += 1
        self.restarts += 1
        self.ended = False
        while self.chunks and self.chunks[-1].steps[0] >= step:
            self.chunks.pop()
        if self.chunks:
            self.chunks[-1].cut(step)
        del self.passed[bisect_left(self.passed, step) :]
        self._findings = [kept for kept in self._findings if kept[0] < step]
        self._forget_names()

    def clear(self) -> None:
        """Forgets everything: the files that it came from are gone."""
        self.restart(0)
        self.notes = {}

    def append(self, record: Record, counts: Counts | None = None) -> None:
        """Appends a record; one that is not later than the last restarts there.

        Args:
            record: Its histograms are not looked at.
            counts: Its histograms, wherever they are.
        """
        if self.chunks and record.step <= self.last:
            self.restart(record.step)
        last = self.chunks[-1] if self.chunks else None
        goes_on = last is not None and last.layout == record.layout
        if last is None or not goes_on or last.count == len(last.steps):
            before = last.column("norm")[-1] if last is not None and goes_on else None
            last = Chunk(record.layout, min(self._window or _MOST, _MOST), before)
            if not goes_on:
                self._forget_names()
            self.chunks.append(last)
            self._drop()
        last.append(record, counts)
        self.ended = False
        self.version += 1

    def add_finding(self, step: int, finding: dict[str, Any]) -> None:
        """Adds a report of a finding, made at a step: that it is there, or its end.

        The reports of a finding are all kept, so that a training that goes back to a
        step between them forgets the end, and not the finding.
        """
        self._findings.append((step, {"step": step, **finding}))
        self.version += 1

    def note(self, key: str, facts: dict[str, Any]) -> None:
        """Sets facts of the run as a whole.

        The total cost of watching, "overhead", is noted when a training ends. A
        training that follows it in the same directory notes "run" when it begins, and
        one that ends before its first record notes both at once.
        """
        self.notes[key] = facts
        if key == "overhead":
            self.ended = not facts.get("so_far")
        elif key == "run" and len(self):
            self.ended = False
        self.version += 1

    def take(
        self, step: int, values: Sequence[Value], later: Counts | None = None
    ) -> None:
        """Adds the values of a step; `later` reads its histograms when asked for."""
        record, counts = record_of(step, values)
        if record is not None:
            self.append(record, counts and (later or counts))
        for tag, meta, data in values:
            if meta["what"] == "findings":
                self.add_finding(step, json.loads(data[0]))
            elif meta["what"] == "note":
                self.note(tag.removeprefix(NOTES), json.loads(data[0]))

    def _drop(self) -> None:
        """Drops the oldest chunks, as long as the others hold enough records."""
        if self._window is None:
            return
        while len(self) - self.chunks[0].count >= self._window:
            oldest = self.chunks.pop(0)
            self.passed += oldest.steps[: oldest.count].tolist()
            self._forget_names()

    def _forget_names(self) -> None:
        self._names.clear()
        self._rows.clear()
        self._layouts = ()

    # what there is --------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(chunk.count for chunk in self.chunks)

    @property
    def num_records(self) -> int:
        """Number of recorded steps, including those that `window` dropped."""
        return len(self.passed) + len(self)

    @property
    def first(self) -> int:
        """The first recorded step; 0 if there is none."""
        return int(self.chunks[0].steps[0]) if self.chunks else 0

    @property
    def last(self) -> int:
        """The last recorded step; 0 if there is none."""
        return int(self.chunks[-1].steps[self.chunks[-1].count - 1]) if len(self) else 0

    @property
    def steps(self) -> NDArray[np.int64]:
        """All recorded steps."""
        parts = [chunk.steps[: chunk.count] for chunk in self.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    @property
    def findings(self) -> tuple[dict[str, Any], ...]:
        """The findings, each with its "step", as they were last reported."""
        latest = {
            repr([finding.get(key) for key in _IDENTITY]): finding
            for _, finding in self._findings
        }
        return tuple(latest.values())

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts, in the order of their first steps."""
        if not self._layouts:
            self._layouts = tuple(dict.fromkeys(chunk.layout for chunk in self.chunks))
        return self._layouts

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that there are: `COLUMNS`, then any optional ones."""
        return known_first(COLUMNS, (c for each in self.layouts for c in each.columns))

    def names(self, *kinds: str) -> tuple[str, ...]:
        """Returns the addresses of these kinds, along the depth of the model."""
        if kinds not in self._names:
            self._names[kinds] = names_of(self.layouts, kinds)
        return self._names[kinds]

    def rows_of(self, layout: Layout, kind: str) -> Rows:
        """Returns indices among `names(kind)`, and the rows of a layout that go there.

        `(None, None)` if each row has its own index.
        """
        if (layout, kind) not in self._rows:
            known = self.names(kind)
            index = {name: row for row, name in enumerate(known)}
            own = [row for row, k in enumerate(layout.kinds) if k == kind]
            to = [index[layout.names[row]] for row in own]
            same = to == own == list(range(max(len(layout), len(known))))
            pair = (None, None) if same else (np.array(to, int), np.array(own, int))
            self._rows[layout, kind] = pair
        return self._rows[layout, kind]

    def sizes(self, kind: str) -> list[int]:
        """Returns the number of elements of each; 0 where that is not fixed."""
        sizes: dict[Key, int] = {}
        for layout in self.layouts:
            sizes |= zip(layout.keys, layout.sizes, strict=True)
        return [sizes[kind, name] for name in self.names(kind)]

    def between(self, first: float, last: float) -> Iterator[tuple[Chunk, slice]]:
        """Yields the chunks with steps in this range, and which of their steps."""
        for chunk in self.chunks:
            steps = chunk.steps[: chunk.count]
            if len(steps) and steps[-1] >= first and steps[0] <= last:
                start = int(np.searchsorted(steps, first))
                stop = int(np.searchsorted(steps, last, "right"))
                if start < stop:
                    yield chunk, slice(start, stop)

    def at(self, index: int) -> tuple[Chunk, int]:
        """Returns the chunk that holds the n-th recorded step, and its index there."""
        for chunk in self.chunks:
            if index < chunk.count:
                return chunk, index
            index -= chunk.count
        raise IndexError(index)

    # as series ------------------------------------------------------------------------

    def totals(self) -> Totals:
        """Returns the numbers of each step as a whole."""
        names = known_first(TOTALS, (t for each in self.layouts for t in each.totals))
        each = {name: [chunk.total(name) for chunk in self.chunks] for name in names}
        nothing = np.empty(0)
        columns = {name: np.concatenate([nothing, *each[name]]) for name in names}
        return Totals(self.steps, columns)

    def series(self, key: Key) -> Series:
        """Returns one row through all steps that have it."""
        keys = {each: each.keys for each in self.layouts}
        each = ((chunk, keys[chunk.layout]) for chunk in self.chunks)
        own = [(chunk, known.index(key)) for chunk, known in each if key in known]
        steps = np.concatenate([chunk.steps[: chunk.count] for chunk, _ in own])
        columns = {
            name: np.concatenate([chunk.column(name)[:, row] for chunk, row in own])
            for name in self.columns
        }
        # Copied now and read later: the run may have gone on by then, or gone back.
        later = [(row, counts) for chunk, row in own for counts in chunk.counts]
        # Of activations no histogram is recorded.
        later = later if key[0] == "weight" else []

        def read() -> Histograms:
            due = [at for at, (_, counts) in enumerate(later) if counts is not None]
            each = [counts()[row] for row, counts in later if counts is not None]
            return steps[due], np.array(each, np.int64).reshape(-1, BUCKETS)

        chunk, row = own[-1]
        return Series(key, chunk.layout.sizes[row], steps, columns, read)

    def records(self) -> Iterator[Record]:
        """Yields the records in order, without their histograms."""
        for chunk in self.chunks:
            for at in range(chunk.count):
                yield Record(
                    int(chunk.steps[at]),
                    chunk.layout,
                    np.ascontiguousarray(chunk.data[:, at].T),
                    None,
                    measured(chunk.layout.totals, chunk.totals[:, at]),
                    chunk.replicas[at],
                )


def names_of(layouts: Iterable[Layout], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of these kinds, along the depth of the model.

    Layers that were unfrozen later come in where they stand in the later layout: after
    the name before them.
    """
    names: list[str] = []
    for layout in layouts:
        at = 0
        for kind, name in layout.keys:
            if kind not in kinds:
                continue
            if name in names:
                at = names.index(name) + 1
            else:
                names.insert(at, name)
                at += 1
    return tuple(names)


def _named(
    name: str, names: tuple[str, ...], data: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the part of `data` that has a name; `blank` if none has."""
    return data[names.index(name)] if name in names else blank(data.shape[1:])
