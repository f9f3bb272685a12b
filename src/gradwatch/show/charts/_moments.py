"""One step in full, and the histograms of one line over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...run import Store
from ...summarise import BUCKETS
from ._buckets import MEASURED, NAN, NEGINF, POSINF
from ._quantities import QUANTITIES, Quantity

_BAD = ("nan", "posinf", "neginf")


@dataclass(frozen=True, slots=True)
class Moment:
    """One recorded step.

    Attributes:
        index: Which of the recorded steps it is.
        step: Its number.
        values: float64, `[quantities, lines]`, in the order of `QUANTITIES`.
        flags: uint8, likewise: `MEASURED`, and what the number itself is.
        counts: float64, `[3, lines]`: how many elements are NaN, +inf and -inf.
    """

    index: int
    step: int
    values: NDArray[np.float64]
    flags: NDArray[np.uint8]
    counts: NDArray[np.float64]


def moment(store: Store, index: int, kind: str) -> Moment:
    """Returns all that is known of the lines of one kind at a recorded step."""
    chunk, row = store.at(index)
    to, source = store.rows_of(chunk.layout, kind)
    count = len(store.names(kind))
    if to is None or source is None:
        to = source = np.arange(count)
    rows = slice(row, row + 1)
    values = np.full((len(QUANTITIES), count), np.nan, np.float64)
    flags = np.zeros((len(QUANTITIES), count), np.uint8)
    for place, quantity in enumerate(QUANTITIES.values()):
        numbers, measured = quantity.of(chunk, rows)
        there = np.ones(numbers.shape, bool) if measured is None else measured
        found = numbers[0, source]
        marks = there[0, source] * np.uint8(MEASURED)
        marks |= (np.isnan(found) & there[0, source]) * np.uint8(NAN)
        marks |= np.isposinf(found) * np.uint8(POSINF)
        marks |= np.isneginf(found) * np.uint8(NEGINF)
        values[place, to] = np.where(np.isfinite(found), found, np.nan)
        flags[place, to] = marks
    counts = np.zeros((3, count), np.float64)
    for place, name in enumerate(_BAD):
        counts[place, to] = np.nan_to_num(chunk.column(name)[row, source])
    return Moment(index, int(chunk.steps[row]), values, flags, counts)


def worst_index(
    store: Store, line: tuple[str, str], quantity: Quantity, span: tuple[float, float]
) -> int | None:
    """Returns which recorded step a cell of a heat map shows: the worst one in it.

    One with an element that is not finite, if there is; else the largest number.

    Args:
        store: Of the run.
        line: Its kind and its address.
        quantity: What the heat map shows.
        span: The first and the last step of the cell.
    """
    best, found, before = (-1.0, -np.inf), None, 0
    for chunk in store.chunks:
        pairs = list(zip(chunk.layout.kinds, chunk.layout.names, strict=True))
        steps = chunk.steps[: chunk.count]
        start, stop = (
            np.searchsorted(steps, span[0]),
            np.searchsorted(steps, span[1], "right"),
        )
        if line in pairs and start < stop:
            at, rows = pairs.index(line), slice(int(start), int(stop))
            numbers, measured = quantity.of(chunk, rows)
            values = numbers[:, at].astype(np.float64)
            known = np.ones(len(values), bool) if measured is None else measured[:, at]
            bad = sum(chunk.column(name)[rows, at] > 0 for name in _BAD)
            bad = (bad > 0) | (known & ~np.isfinite(values))
            values = np.where(known & np.isfinite(values), values, -np.inf)
            for place in range(len(values)):
                rank = (float(bad[place]), float(values[place]))
                if rank > best:
                    best, found = rank, before + int(start) + place
        before += chunk.count
    return found


def histograms(
    store: Store,
    name: str,
    span: tuple[float, float] | None = None,
    count: int = 120,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns steps, and the counts of a weight at each: `[steps, BUCKETS]`.

    Of more than `count`, evenly chosen ones, among them the first and the last.
    """
    low, high = span if span is not None else (store.first, store.last)
    found = []
    for chunk, rows in store.between(low, high):
        lines = dict(zip(chunk.layout.names, range(len(chunk.layout)), strict=True))
        line = lines.get(name)
        if line is not None and chunk.layout.kinds[line] != "weight":
            line = _weight(chunk.layout.names, chunk.layout.kinds, name)
        if line is None:
            continue
        for at in range(rows.start, rows.stop):
            counts = chunk.counts[at]
            if counts is not None:
                found.append((int(chunk.steps[at]), counts, line))
    if len(found) > count:
        chosen = np.linspace(0, len(found) - 1, count).round().astype(int)
        found = [found[at] for at in chosen]
    steps = np.array([step for step, _, _ in found], np.int64)
    read = [counts.read()[line] for _, counts, line in found]
    return steps, np.array(read, np.int64).reshape(-1, BUCKETS)


def _weight(names: tuple[str, ...], kinds: tuple[str, ...], wanted: str) -> int | None:
    pairs = zip(names, kinds, strict=True)
    for line, (name, kind) in enumerate(pairs):
        if name == wanted and kind == "weight":
            return line
    return None
