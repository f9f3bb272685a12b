"""The column store: the numbers of a run in memory, column by column.

The reader appends records to it as they come in. The rules, the tab, the report, the
terminal and the tables read the same columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summarise import BUCKETS, COLUMNS, is_blank
from ._codec import Counts
from ._layout import KINDS, TOTALS, Layout, Record
from ._series import Column, Histograms, Series, Totals

_CELLS = 2**20  # numbers in a chunk: few enough for the cache of a processor
_LEAST, _MOST = 16, 1024  # steps
_AT = {name: index for index, name in enumerate(COLUMNS)}
_BAD = [_AT[name] for name in ("nan", "posinf", "neginf")]

_IDENTITY = ("symptom", "addresses", "since", "step", "measured")
"""What two reports of one finding have in common."""

Rows = tuple[NDArray[np.int_], NDArray[np.int_]] | tuple[None, None]
"""Indices among the names of a kind, and the rows of a chunk that go there."""

Key = tuple[str, str]
"""The kind and the name of a row."""


@dataclass(eq=False)
class Chunk:
    """Consecutive steps whose lines are the same.

    Attributes:
        layout: What the lines are.
        data: float64, `[columns, steps, lines]`, of which `count` steps are filled.
        totals: float64, `[totals, steps]`; NaN and `measured` False where not known.
        counts: Where the histograms of each step are, or None.
        finite: Whether no element of any tensor was NaN or infinite.
        before: The norms of the step before the first, if its lines are the same.
    """

    layout: Layout
    data: NDArray[np.float64]
    steps: NDArray[np.int64]
    totals: NDArray[np.float64]
    measured: NDArray[np.bool_]
    counts: list[Counts | None] = field(default_factory=list)
    count: int = 0
    finite: bool = True
    before: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, layout: Layout, most: int = _MOST) -> Chunk:
        """Returns an empty chunk for these rows, with room for at most `most` steps."""
        room = _CELLS // max(1, len(layout) * len(COLUMNS))
        room = min(max(room, _LEAST), most)
        return cls(
            layout,
            np.empty((len(COLUMNS), room, len(layout)), np.float64),
            np.empty(room, np.int64),
            np.full((len(TOTALS), room), np.nan),
            np.zeros((len(TOTALS), room), bool),
        )

    @property
    def full(self) -> bool:
        """Whether no further step fits in."""
        return self.count == len(self.steps)

    def column(self, name: str) -> NDArray[np.float64]:
        """Returns one column, `[steps, lines]`."""
        return self.data[_AT[name], : self.count]

    def append(self, record: Record, counts: Counts | None) -> None:
        """Appends a record."""
        at = self.count
        self.data[:, at] = record.rows.T
        bad = record.rows[:, _BAD]
        if bad.any() and bool((bad[~is_blank(bad)] != 0).any()):
            self.finite = False
        self.steps[at] = record.step
        for index, name in enumerate(TOTALS):
            self.measured[index, at] = name in record.totals
            self.totals[index, at] = record.totals.get(name, np.nan)
        self.counts.append(counts)
        self.count += 1

    def totals_at(self, at: int) -> dict[str, float]:
        """Returns the totals of a step, those that were measured."""
        return {
            name: float(self.totals[index, at])
            for index, name in enumerate(TOTALS)
            if self.measured[index, at]
        }

    def cut(self, step: int) -> None:
        """Forgets the steps from this one on."""
        self.count = int(np.searchsorted(self.steps[: self.count], step))
        del self.counts[self.count :]


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
        window: Number of the newest records to keep at least; everything is kept
            without. A run of days must not fill the memory of a terminal that shows
            its newest records.

    Attributes:
        chunks: The recorded steps, ascending.
        passed: The steps whose records were dropped because of `window`.
        notes: Facts of the run as a whole.
        ended: Whether the last thing the run said is that the training is over.
        version: Another number whenever something has changed.
        restarts: Number of times that the training went back, or began.
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
        self._names: dict[str, tuple[str, ...]] | None = None
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
        self._names = None

    def append(self, record: Record, counts: Counts | None = None) -> None:
        """Appends a record; one that is not later than the last restarts there.

        Args:
            record: Its histograms are not looked at.
            counts: Its histograms, wherever they are.
        """
        if self.chunks and record.step <= self.last:
            self.restart(record.step)
        last = self.chunks[-1] if self.chunks else None
        if last is None or last.full or last.layout != record.layout:
            new = Chunk.of(record.layout, min(self._window or _MOST, _MOST))
            if last is None or last.layout != record.layout:
                self._names = None
            else:
                new.before = last.column("norm")[-1]
            self.chunks.append(new)
            last = new
            self._drop()
        last.append(record, counts)
        self.ended = False
        self.version += 1

    def add_finding(self, step: int, finding: dict[str, Any]) -> None:
        """Adds a finding that was made at a step; one that has ended is replaced."""
        new = {"step": step, **finding}
        own = [new.get(key) for key in _IDENTITY]
        known = [[kept.get(key) for key in _IDENTITY] for kept in self.findings]
        at = known.index(own) if own in known else len(known)
        self._findings[at : at + 1] = [(step, new)]
        self.version += 1

    def note(self, key: str, facts: dict[str, Any]) -> None:
        """Sets facts of the run. The cost of watching in all is noted at the end.

        A training that comes after it notes what it is, too. But one that is over
        before its first record notes both at once.
        """
        self.notes[key] = facts
        over = key == "overhead" and not facts.get("so_far")
        again = key == "overhead" or (key == "run" and bool(len(self)))
        self.ended = over or (self.ended and not again)
        self.version += 1

    def _drop(self) -> None:
        """Drops the oldest chunks, as long as the others hold enough records."""
        if self._window is None:
            return
        while len(self) - self.chunks[0].count >= self._window:
            oldest = self.chunks.pop(0)
            self.passed += oldest.steps[: oldest.count].tolist()
            self._names = None

    # what there is --------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(chunk.count for chunk in self.chunks)

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
        """The findings, each with its "step"."""
        return tuple(finding for _, finding in self._findings)

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts, in the order of their first steps."""
        return tuple(
            dict.fromkeys(chunk.layout for chunk in self.chunks if chunk.count)
        )

    def names(self, kind: str) -> tuple[str, ...]:
        """Returns the addresses of one kind, along the depth of the model."""
        if self._names is None:
            self._rows.clear()
            self._names = {kind: names_of(self.layouts, (kind,)) for kind in KINDS}
        return self._names[kind]

    def rows_of(self, layout: Layout, kind: str) -> Rows:
        """Returns indices among `names(kind)`, and the rows of a layout that go there.

        `(None, None)` if each row has its own index.
        """
        known = self.names(kind)  # before looking at what is kept
        if (layout, kind) not in self._rows:
            index = {name: row for row, name in enumerate(known)}
            own = [row for row, k in enumerate(layout.kinds) if k == kind]
            to = [index[layout.names[row]] for row in own]
            same = to == own == list(range(max(len(layout), len(known))))
            pair = (None, None) if same else (np.array(to, int), np.array(own, int))
            self._rows[layout, kind] = pair
        return self._rows[layout, kind]

    def sizes(self, kind: str) -> list[int]:
        """Returns how many numbers each of them holds; 0 where that is not fixed."""
        found = {
            (own, name): size
            for layout in self.layouts
            for own, name, size in zip(
                layout.kinds, layout.names, layout.sizes, strict=True
            )
        }
        return [found[kind, name] for name in self.names(kind)]

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
        numbers = [chunk.totals[:, : chunk.count] for chunk in self.chunks]
        known = [chunk.measured[:, : chunk.count] for chunk in self.chunks]
        nothing = np.empty((len(TOTALS), 0))
        data = np.concatenate([nothing, *numbers], axis=1)
        mask = ~np.concatenate([nothing.astype(bool), *known], axis=1)
        columns = {
            name: np.ma.MaskedArray(np.where(mask[at], 0.0, data[at]), mask=mask[at])
            for at, name in enumerate(TOTALS)
        }
        return Totals(self.steps, **columns)

    def series(self, key: Key) -> Series:
        """Returns one row through all steps that have it."""
        mine = []
        for chunk in self.chunks:
            row = _row(chunk.layout, key)
            if row is not None and chunk.count:
                mine.append((chunk, row))
        steps = np.concatenate([chunk.steps[: chunk.count] for chunk, _ in mine])
        data = np.concatenate([c.data[:, : c.count, row] for c, row in mine], axis=1)
        columns = {name: masked(data[at]) for name, at in _AT.items()}
        chunk, row = mine[-1]

        def read() -> Histograms:
            kept = [
                (int(step), counts, row)
                for chunk, row in mine
                for step, counts in zip(chunk.steps, chunk.counts, strict=False)
                if counts is not None
            ]
            at = np.array([step for step, _, _ in kept], np.int64)
            each = [counts.read()[row] for _, counts, row in kept]
            return at, np.array(each, np.int64).reshape(-1, BUCKETS)

        size = chunk.layout.sizes[row]
        return Series(key[1], key[0], size, steps, **columns, _read=read)

    def records(self) -> Iterator[Record]:
        """Yields the records in order, without their histograms."""
        for chunk in self.chunks:
            for at in range(chunk.count):
                rows = np.ascontiguousarray(chunk.data[:, at].T)
                step, totals = int(chunk.steps[at]), chunk.totals_at(at)
                yield Record(step, chunk.layout, rows, None, totals)


def masked(column: NDArray[np.float64]) -> Column:
    """Returns a column whose mask says where nothing was measured."""
    return np.ma.MaskedArray(column, mask=is_blank(column))


def names_of(layouts: Iterable[Layout], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of these kinds, along the depth of the model.

    Layers that were unfrozen later come in where they stand in the later layout: after
    the name before them.
    """
    names: list[str] = []
    for layout in layouts:
        at = 0
        for kind, name in zip(layout.kinds, layout.names, strict=True):
            if kind not in kinds:
                continue
            if name in names:
                at = names.index(name) + 1
            else:
                names.insert(at, name)
                at += 1
    return tuple(names)


def _row(layout: Layout, key: Key) -> int | None:
    for row, each in enumerate(zip(layout.kinds, layout.names, strict=True)):
        if each == key:
            return row
    return None
