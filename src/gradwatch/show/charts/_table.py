"""The numbers of a run, column by column, as they come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...record import KINDS, TOTALS, Counts, FoundStep, Layout
from ...record._blocks import names
from ...summarise import COLUMNS, SCALED, blank, is_blank

_CELLS = 2**20  # numbers in a chunk: few enough for the cache of a processor
_LEAST, _MOST = 16, 1024  # steps
_AT = {name: place for place, name in enumerate(COLUMNS)}
_BAD = [_AT[name] for name in ("nan", "posinf", "neginf")]
_LARGEST = float(np.finfo(np.float32).max)

Places = tuple[NDArray[np.int_], NDArray[np.int_]] | tuple[None, None]
"""Lines of a picture, and the lines of a chunk that go there."""


@dataclass(eq=False)
class Chunk:
    """Consecutive steps whose lines are the same.

    Attributes:
        layout: What the lines are.
        data: float32, `[columns, steps, lines]`, of which `count` steps are filled.
        totals: float64, `[totals, steps]`; NaN and `measured` False where not known.
        counts: Where the histograms of each step are, or None.
        finite: Whether no element of any tensor was NaN or infinite.
        before: The norms of the step before the first, if its lines are the same.
    """

    layout: Layout
    data: NDArray[np.float32]
    steps: NDArray[np.int64]
    totals: NDArray[np.float64]
    measured: NDArray[np.bool_]
    counts: list[Counts | None] = field(default_factory=list)
    count: int = 0
    finite: bool = True
    before: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, layout: Layout) -> Chunk:
        """Returns an empty chunk for these lines."""
        room = _CELLS // max(1, len(layout) * len(COLUMNS))
        room = min(max(room, _LEAST), _MOST)
        return cls(
            layout,
            np.empty((len(COLUMNS), room, len(layout)), np.float32),
            np.empty(room, np.int64),
            np.full((len(TOTALS), room), np.nan),
            np.zeros((len(TOTALS), room), bool),
        )

    @property
    def full(self) -> bool:
        """Whether no further step fits in."""
        return self.count == len(self.steps)

    def column(self, name: str) -> NDArray[np.float32]:
        """Returns one column, `[steps, lines]`."""
        return self.data[_AT[name], : self.count]

    def add(self, found: FoundStep) -> None:
        """Appends a step."""
        at = self.count
        rows = in_full_range(found)
        self.data[:, at] = rows.T
        bad = rows[:, _BAD]
        if bad.any() and bool((bad[~is_blank(bad)] != 0).any()):
            self.finite = False
        self.steps[at] = found.step
        for place, name in enumerate(TOTALS):
            self.measured[place, at] = name in found.totals
            self.totals[place, at] = found.totals.get(name, np.nan)
        self.counts.append(found.histograms)
        self.count += 1

    def cut(self, step: int) -> None:
        """Forgets the steps from this one on."""
        self.count = int(np.searchsorted(self.steps[: self.count], step))
        del self.counts[self.count :]


class Table:
    """A run in memory, in the form that pictures are made of.

    It is a `Listener`: a `Follower` fills it from disk, and goes on while the training
    runs. `table_of` makes one of a run that was read.

    Example:
    >>> from gradwatch.record import FoundStep, Layout
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> table = Table()
    >>> table.step(
    ...     FoundStep(7, Layout(("a/kernel",), ("weight",), (6,)), COLUMNS, rows)
    ... )
    >>> len(table), table.names("weight"), table.first, table.last
    (1, ('a/kernel',), 7, 7)

    Attributes:
        chunks: The recorded steps, ascending.
        findings: Each with its "step".
        notes: Facts of the run as a whole.
        version: Another number whenever something has changed.
    """

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.findings: list[dict[str, Any]] = []
        self.notes: dict[str, dict[str, Any]] = {}
        self.version = 0
        self._names: dict[str, tuple[str, ...]] | None = None
        self._places: dict[tuple[Layout, str], Places] = {}

    # as a listener --------------------------------------------------------------------

    def restart(self, step: int) -> None:
        """Forgets what is known from this step on."""
        self.version += 1
        while self.chunks and self.chunks[-1].steps[0] >= step:
            self.chunks.pop()
        if self.chunks:
            self.chunks[-1].cut(step)
        self.findings = [found for found in self.findings if found["step"] < step]
        self._names = None

    def step(self, found: FoundStep) -> None:
        """Appends a step; one that is not later than the last starts again there."""
        if self.chunks and found.step <= self.last:
            self.restart(found.step)
        last = self.chunks[-1] if self.chunks else None
        if last is None or last.full or last.layout != found.layout:
            new = Chunk.of(found.layout)
            if last is None or last.layout != found.layout:
                self._names = None
            else:
                new.before = last.column("norm")[-1]
            self.chunks.append(new)
            last = new
        last.add(found)
        self.version += 1

    def finding(self, step: int, finding: dict[str, Any]) -> None:
        """Keeps what was found."""
        self.findings.append({"step": step, **finding})
        self.version += 1

    def note(self, key: str, facts: dict[str, Any]) -> None:
        """Keeps facts of the run."""
        self.notes[key] = facts
        self.version += 1

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

    def names(self, kind: str) -> tuple[str, ...]:
        """Returns the addresses of one kind, along the depth of the model."""
        if self._names is None:
            self._places.clear()
            layouts = dict.fromkeys(chunk.layout for chunk in self.chunks)
            blocks = [SimpleNamespace(layout=layout) for layout in layouts]
            self._names = {
                kind: names(blocks, (kind,))  # type: ignore[arg-type]
                for kind in KINDS
            }
        return self._names[kind]

    def places(self, layout: Layout, kind: str) -> Places:
        """Returns where lines of a layout go among `names`, and which lines these are.

        `(None, None)` if each goes to its own place.
        """
        known = self.names(kind)  # before looking at what is kept
        if (layout, kind) not in self._places:
            place = {name: line for line, name in enumerate(known)}
            own = [line for line, k in enumerate(layout.kinds) if k == kind]
            to = [place[layout.names[line]] for line in own]
            same = to == own == list(range(max(len(layout), len(known))))
            pair = (None, None) if same else (np.array(to, int), np.array(own, int))
            self._places[layout, kind] = pair
        return self._places[layout, kind]

    def sizes(self, kind: str) -> list[int]:
        """Returns how many numbers each of them holds; 0 where that is not fixed."""
        found = {
            (own, name): size
            for layout in dict.fromkeys(chunk.layout for chunk in self.chunks)
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
        """Returns the chunk that holds the n-th recorded step, and its place there."""
        for chunk in self.chunks:
            if index < chunk.count:
                return chunk, index
            index -= chunk.count
        raise IndexError(index)


def in_full_range(found: FoundStep) -> NDArray[np.float32]:
    """Returns the rows in the order of `COLUMNS`, with their exponents put back.

    What is too large for a float32 then becomes the largest one, and not infinite.
    """
    rows = found.rows
    if found.columns != COLUMNS:  # of another version
        rows = blank((len(found.rows), len(COLUMNS)))
        for place, column in enumerate(COLUMNS):
            if column in found.columns:
                rows[:, place] = found.rows[:, found.columns.index(column)]
    exponent = rows[:, _AT["exponent"]]
    if not exponent.any():
        return rows
    known = np.isfinite(exponent) & (exponent != 0)
    if not known.any():
        return rows
    rows = rows.copy()
    for name in SCALED:
        column = rows[known, _AT[name]].astype(np.float64)
        wide = np.ldexp(column, exponent[known].astype(np.int64))
        finite = np.isfinite(column)
        wide[finite] = np.clip(wide[finite], -_LARGEST, _LARGEST)
        keep = ~is_blank(rows[known, _AT[name]])
        rows[np.flatnonzero(known)[keep], _AT[name]] = wide[keep].astype(np.float32)
    return rows
