"""Many steps in few buckets: the worst of each, NaN and infinity above all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import Chunk, Run
from ._quantities import Measured, Numbers, Quantity

NAN, POSINF, NEGINF, MEASURED = 1, 2, 4, 8
"""Flags of a cell: what some element of some step in it is, and that it is known."""

NONFINITE = {"nan": NAN, "posinf": POSINF, "neginf": NEGINF}
"""The columns that count elements which are not finite, and their flags."""

CURVES = (
    *("global_norm", "applied_norm", "update_ratio"),
    *("loss", "learning_rate", "loss_scale"),
)
"""The totals that are drawn as curves."""

Span = tuple[float, float] | None
"""First and last step; `None` for all."""


@dataclass(frozen=True, slots=True)
class Heat:
    """Rows of numbers over buckets of steps.

    Attributes:
        names: The address of each row; the totals, of curves.
        low: The step at which the first bucket begins.
        high: The step at which the last bucket ends (exclusive).
        first: First recorded step of each bucket; -1 where there is none.
        last: Last recorded step of each bucket, likewise.
        values: float64, `[rows, buckets]`: the largest finite number; NaN where there
            is none.
        flags: uint8, likewise: `NAN`, `POSINF`, `NEGINF` and `MEASURED`, or 0.
    """

    names: tuple[str, ...]
    low: float
    high: float
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    values: NDArray[np.float64]
    flags: NDArray[np.uint8]

    def only(
        self,
        rows: Sequence[int] | None = None,
        buckets: NDArray[np.bool_] | slice = slice(None),
    ) -> Heat:
        """Returns some of its rows and buckets."""
        rows = list(range(len(self.names)) if rows is None else rows)
        return replace(
            self,
            names=tuple(self.names[row] for row in rows),
            first=self.first[buckets],
            last=self.last[buckets],
            values=self.values[rows][:, buckets],
            flags=self.flags[rows][:, buckets],
        )

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as a page receives them."""
        names = ("first", "last", "values", "flags")
        return {name: getattr(self, name) for name in names}


class Buckets:
    """Intervals of steps of equal length.

    Args:
        low: The step at which the first begins.
        high: The step at which the last ends.
        count: Number of buckets.
    """

    def __init__(self, low: float, high: float, count: int) -> None:
        self.low, self.high, self.count = low, high, count

    @classmethod
    def fit(
        cls, steps: NDArray[np.int64], low: float, high: float, most: int
    ) -> Buckets:
        """Returns buckets for these steps of a range, each for one step if that fits.

        Where steps are unevenly spaced most of these would be empty: then there are as
        many buckets as steps.

        Args:
            steps: The recorded steps in the range, ascending.
            low: The first step of the range.
            high: The last step of the range.
            most: Maximum number of buckets.
        """
        if len(steps) < 2:
            return cls(low, high + 1, 1)
        closest = int(np.diff(steps).min())
        each = math.ceil((high + 1 - low) / closest)
        if each <= min(most, 2 * len(steps)):
            # A bucket then begins at each step, if `low` is one.
            return cls(low, low + each * closest, each)
        return cls(low, high + 1, max(1, min(most, len(steps))))

    def of(self, steps: NDArray[np.int64]) -> NDArray[np.intp]:
        """Returns the bucket of each step."""
        # Multiplied first: 58 / 200 * 100 is below 29, and would be a bucket too early.
        index = (steps - self.low) * self.count / (self.high - self.low)
        return np.clip(index.astype(np.intp), 0, self.count - 1)

    def runs(
        self, steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Returns the buckets of ascending steps, and where each of them starts."""
        of = self.of(steps)
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        return of[starts], starts

    def ends(
        self, steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the first and the last of ascending steps in each bucket, or -1."""
        of, starts = self.runs(steps)
        first, last = np.full((2, self.count), -1, np.int64)
        first[of] = steps[starts]
        last[of] = steps[np.append(starts[1:], len(steps)) - 1] if len(steps) else []
        return first, last


def heat(
    run: Run, quantity: Quantity, kind: str, span: Span = None, count: int = 512
) -> Heat:
    """Returns the worst of each row and bucket: NaN, infinity, the largest number.

    Nothing is averaged: one NaN in a thousand steps is visible.

    Args:
        run: The run.
        quantity: The quantity to show.
        kind: The rows: one of `KINDS`.
        span: First and last step; all of them if left out.
        count: Maximum number of buckets. Where that is enough, each holds one recorded
            step, if these are evenly spaced.
    """
    store = run.store
    low, high = span if span is not None else (store.first, store.last)
    inside = list(store.between(low, high))
    parts = [chunk.steps[rows] for chunk, rows in inside]
    recorded = np.concatenate(parts) if parts else np.empty(0, np.int64)
    buckets = Buckets.fit(recorded, low, high, count)
    first, last = buckets.ends(recorded)
    shape = buckets.count, len(store.names(kind))
    values, flags = np.full(shape, np.nan, np.float64), np.zeros(shape, np.uint8)
    for chunk, rows in inside:
        of, starts = buckets.runs(chunk.steps[rows])
        to, source = store.rows_of(chunk.layout, kind)
        largest, marks = worst(*quantity.of(chunk, rows), starts)
        if not chunk.finite:
            marks |= _elements(chunk, rows, starts)
        if to is None:  # the rows of the picture are those of the chunk
            values[of] = np.fmax(values[of], largest)
            flags[of] |= marks
        else:
            cells = np.ix_(of, to)
            values[cells] = np.fmax(values[cells], largest[:, source])
            flags[cells] |= marks[:, source]
    names = store.names(kind)
    return Heat(names, buckets.low, buckets.high, first, last, values.T, flags.T)


def curves(
    run: Run, span: Span = None, count: int = 1024
) -> tuple[Heat, dict[str, NDArray[Any]]]:
    """Returns the totals over buckets of steps, and further arrays of each bucket.

    These are `least`, the smallest finite number of each curve, and the numbers of
    `updates` for which clipping is known, of those that were `clipped`, and of steps
    that loss scaling `skipped`.

    Args:
        run: The run.
        span: First and last step; all of them if left out.
        count: Maximum number of buckets.
    """
    low, high = span if span is not None else (run.store.first, run.store.last)
    totals = run.totals
    rows = slice(*np.searchsorted(totals.steps, [low, np.nextafter(high, np.inf)]))
    columns = [getattr(totals, name)[rows] for name in CURVES]
    numbers = np.column_stack([column.data for column in columns])
    measured = ~np.column_stack([np.ma.getmaskarray(column) for column in columns])
    steps = totals.steps[rows]
    buckets = Buckets.fit(steps, low, high, count)
    of, starts = buckets.runs(steps)
    shape = buckets.count, len(CURVES)
    values, flags = np.full(shape, np.nan), np.zeros(shape, np.uint8)
    least = np.full(shape, np.nan)
    skipped = totals.skipped[rows].filled(0.0) != 0
    updates = (totals.update[rows].filled(1.0) != 0) & ~skipped
    known = updates & ~np.ma.getmaskarray(totals.clipped[rows])
    clipped = updates & (totals.clipped[rows].filled(0.0) != 0)
    more = {"updates": known, "clipped": clipped, "skipped": skipped}
    counts = {name: np.zeros(buckets.count, np.int64) for name in more}
    if len(steps):
        values[of], flags[of] = worst(numbers, measured, starts)
        least[of] = -worst(-numbers, measured, starts)[0]
        for name, some in more.items():
            counts[name][of] = np.add.reduceat(some.astype(int), starts)
    ends = buckets.low, buckets.high, *buckets.ends(steps)
    return Heat(CURVES, *ends, values.T, flags.T), {"least": least.T, **counts}


def worst(
    numbers: Numbers, measured: Measured, starts: NDArray[np.intp]
) -> tuple[Numbers, NDArray[np.uint8]]:
    """Returns the largest finite number of each bucket, and its flags.

    Args:
        numbers: `[steps, rows]`.
        measured: Where they were measured; `None` for everywhere.
        starts: The index at which each bucket starts.
    """
    largest = np.maximum.reduceat(numbers, starts, axis=0)
    if measured is None and np.isfinite(largest).all():
        return largest, np.full(largest.shape, MEASURED, np.uint8)
    known = np.ones(numbers.shape, bool) if measured is None else measured
    kinds = (
        (np.isnan(numbers), NAN),
        (np.isposinf(numbers), POSINF),
        (np.isneginf(numbers), NEGINF),
        (True, MEASURED),
    )
    flags = np.zeros(largest.shape, np.uint8)
    for some, flag in kinds:
        flags |= np.logical_or.reduceat(some & known, starts, axis=0) * np.uint8(flag)
    finite = np.where(np.isfinite(numbers) & known, numbers, np.nan)
    return np.fmax.reduceat(finite, starts, axis=0), flags


def _elements(chunk: Chunk, rows: slice, starts: NDArray[np.intp]) -> NDArray[np.uint8]:
    """Returns which kinds of non-finite elements each bucket holds."""
    flags = np.zeros((len(starts), len(chunk.layout)), np.uint8)
    for name, flag in NONFINITE.items():
        some = chunk.column(name)[rows] > 0  # not measured is not more than 0
        flags |= np.logical_or.reduceat(some, starts, axis=0) * np.uint8(flag)
    return flags
