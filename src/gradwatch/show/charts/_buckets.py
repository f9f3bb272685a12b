"""Many steps in few columns: the worst of each bucket, NaN and infinity above all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...run import Chunk, Store
from ._quantities import Measured, Numbers, Quantity

NAN, POSINF, NEGINF, MEASURED = 1, 2, 4, 8
"""Flags of a cell: what some element of some step in it is, and whether it is known."""

_FLAGS = {"nan": NAN, "posinf": POSINF, "neginf": NEGINF}


@dataclass(frozen=True, slots=True)
class Heat:
    """A picture of lines and buckets.

    Attributes:
        low: The step at which the first bucket begins.
        high: The step at which the last one ends (it is not in it).
        first: The first recorded step of each bucket; -1 where there is none.
        last: The last one, likewise.
        values: float64, `[lines, buckets]`: the largest finite number of each; NaN
            where there is none.
        flags: uint8, likewise: `NAN`, `POSINF`, `NEGINF` and `MEASURED`, or 0.
    """

    low: float
    high: float
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    values: NDArray[np.float64]
    flags: NDArray[np.uint8]


class Buckets:
    """Equal stretches of steps.

    Args:
        low: The step at which the first begins.
        high: The step at which the last one ends.
        count: How many there are.
    """

    def __init__(self, low: float, high: float, count: int) -> None:
        self.low, self.high, self.count = low, high, count

    @classmethod
    def fit(
        cls, steps: NDArray[np.int64], low: float, high: float, most: int
    ) -> Buckets:
        """Returns buckets for these steps of a range, each for one step if that fits.

        Of steps that are far apart here and close there, most of these would be empty:
        then there are as many as steps.

        Args:
            steps: The recorded ones in it, ascending.
            low: The first step of the range.
            high: The last one.
            most: How many buckets there may be.
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
        place = (steps - self.low) * self.count / (self.high - self.low)
        return np.clip(place.astype(np.intp), 0, self.count - 1)

    def runs(
        self, steps: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Returns the buckets of ascending steps, and where each of them starts."""
        of = self.of(steps)
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        return of[starts], starts


def heat(
    store: Store,
    quantity: Quantity,
    kind: str,
    span: tuple[float, float] | None = None,
    count: int = 512,
) -> Heat:
    """Returns the worst of each line and bucket: NaN, infinity, the largest number.

    Nothing is averaged: one NaN in a thousand steps is seen.

    Args:
        store: Of the run.
        quantity: What to look at.
        kind: Of which lines: one of `KINDS`.
        span: First and last step; all of them without.
        count: Buckets at most. Where that is enough, each holds one recorded step, if
            these are evenly apart.
    """
    low, high = span if span is not None else (store.first, store.last)
    inside = list(store.between(low, high))
    parts = [chunk.steps[rows] for chunk, rows in inside]
    recorded = np.concatenate(parts) if parts else np.empty(0, np.int64)
    buckets = Buckets.fit(recorded, low, high, count)
    shape = buckets.count, len(store.names(kind))
    values = np.full(shape, np.nan, np.float64)
    flags = np.zeros(shape, np.uint8)
    first = np.full(buckets.count, -1, np.int64)
    last = np.full(buckets.count, -1, np.int64)
    for chunk, rows in inside:
        steps = chunk.steps[rows]
        of, starts = buckets.runs(steps)
        first[of] = np.where(first[of] < 0, steps[starts], first[of])
        last[of] = steps[np.append(starts[1:], len(steps)) - 1]
        to, source = store.rows_of(chunk.layout, kind)
        numbers, measured = quantity.of(chunk, rows)
        found, marks = _worst(numbers, measured, starts)
        if not chunk.finite:
            marks |= _elements(chunk, rows, starts)
        if to is None:  # the lines of the picture are those of the chunk
            values[of] = np.fmax(values[of], found)
            flags[of] |= marks
        else:
            cells = np.ix_(of, to)
            values[cells] = np.fmax(values[cells], found[:, source])
            flags[cells] |= marks[:, source]
    return Heat(buckets.low, buckets.high, first, last, values.T, flags.T)


def _worst(
    numbers: Numbers, measured: Measured, starts: NDArray[np.intp]
) -> tuple[Numbers, NDArray[np.uint8]]:
    """Returns the largest finite number of each bucket, and its flags."""
    largest = np.maximum.reduceat(numbers, starts, axis=0)
    if measured is None and np.isfinite(largest).all():
        return largest, np.full(largest.shape, MEASURED, np.uint8)
    there = np.ones(numbers.shape, bool) if measured is None else measured
    kinds = (
        (np.isnan(numbers) & there, NAN),
        (np.isposinf(numbers), POSINF),
        (np.isneginf(numbers), NEGINF),
        (there, MEASURED),
    )
    flags = np.zeros(largest.shape, np.uint8)
    for found, flag in kinds:
        flags |= np.logical_or.reduceat(found, starts, axis=0) * np.uint8(flag)
    finite = np.where(np.isfinite(numbers) & there, numbers, np.nan)
    return np.fmax.reduceat(finite, starts, axis=0), flags


def _elements(chunk: Chunk, rows: slice, starts: NDArray[np.intp]) -> NDArray[np.uint8]:
    """Returns which kinds of elements that are not finite each bucket holds."""
    flags = np.zeros((len(starts), len(chunk.layout)), np.uint8)
    for name, flag in _FLAGS.items():
        some = chunk.column(name)[rows] > 0  # not measured is not more than 0
        flags |= np.logical_or.reduceat(some, starts, axis=0) * np.uint8(flag)
    return flags
