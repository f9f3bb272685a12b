"""Many steps in few buckets: the worst of each, NaN and infinity above all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import Run
from ._quantities import Measured, Numbers, Quantity

NAN, POSINF, NEGINF, MEASURED = 1, 2, 4, 8
"""Flags of a cell: what some element of some step in it is, and that it is known."""

NONFINITE = {"nan": NAN, "posinf": POSINF, "neginf": NEGINF}
"""The columns that count elements which are not finite, and their flags."""

UNMEASURED, ZERO, NUMBER, IS_NEGINF, IS_POSINF, IS_NAN = range(6)
"""The states of a cell; the larger, the worse, except for zeros.

A gradient with one NaN has no other norm than NaN.
"""

STATES = {NAN: IS_NAN, POSINF: IS_POSINF, NEGINF: IS_NEGINF}
"""The state that a flag stands for, the worst first."""

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

    def only(self, rows: Any = slice(None), buckets: Any = slice(None)) -> Heat:
        """Returns some of its rows and buckets."""
        return replace(
            self,
            names=tuple(np.array(self.names, object)[rows]),
            first=self.first[buckets],
            last=self.last[buckets],
            values=self.values[rows][:, buckets],
            flags=self.flags[rows][:, buckets],
        )

    @property
    def states(self) -> NDArray[np.int_]:
        """The state of each cell: `UNMEASURED`, `ZERO`, `NUMBER`, …."""
        tests = [(self.flags & flag) != 0 for flag in STATES]
        tests += [(self.flags & MEASURED) == 0, self.values == 0]
        return np.select(tests, [*STATES.values(), UNMEASURED, ZERO], NUMBER)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, as a page receives them."""
        names = ("first", "last", "values", "flags")
        return {name: getattr(self, name) for name in names}


def heat(
    run: Run,
    quantity: Quantity,
    kind: str,
    span: Span = None,
    count: int | None = 512,
    *,
    elements: bool = True,
) -> Heat:
    """Returns the worst of each row and bucket: NaN, infinity, the largest number.

    Nothing is averaged: one NaN in a thousand steps is visible.

    Args:
        run: The run.
        quantity: The quantity to show.
        kind: The rows: one of `KINDS`.
        span: First and last step; all of them if left out.
        count: Maximum number of buckets. Where that is enough, each holds one recorded
            step, if these are evenly spaced. `None` for one of each recorded step.
        elements: False to flag only what the quantity itself is, and not the elements
            of the tensor.
    """
    store = run.store
    drawn, bucket_of = _unfilled(run, store.names(kind), span, count)
    values, flags = drawn.values.T, drawn.flags.T
    done, every = 0, np.arange(len(drawn.names))
    for chunk, rows in store.between(*(span or (store.first, store.last))):
        of = bucket_of[done : (done := done + rows.stop - rows.start)]
        of, starts = np.unique(of, return_index=True)
        to, source = store.rows_of(chunk.layout, kind)
        largest, marks = worst(*quantity.of(chunk, rows), starts)
        for name, flag in NONFINITE.items() if elements and not chunk.finite else ():
            some = chunk.column(name)[rows] > 0  # not measured is not more than 0
            marks |= np.logical_or.reduceat(some, starts, axis=0) * np.uint8(flag)
        # Without `to`, the rows of the picture are those of the chunk.
        cells = np.ix_(of, every if to is None else to)
        from_ = slice(None) if source is None else source
        values[cells] = np.fmax(values[cells], largest[:, from_])
        flags[cells] |= marks[:, from_]
    return drawn


def curves(
    run: Run, span: Span = None, count: int | None = 1024
) -> tuple[Heat, dict[str, NDArray[Any]]]:
    """Returns the totals over buckets of steps, and further arrays of each bucket.

    These are `least`, the smallest finite number of each curve, and the numbers of
    `updates` for which clipping is known, of those that were `clipped`, and of steps
    that loss scaling `skipped`.

    Args:
        run: The run.
        span: First and last step; all of them if left out.
        count: Maximum number of buckets; `None` for one of each recorded step.
    """
    drawn, bucket_of = _unfilled(run, CURVES, span, count)
    totals, least = run.totals, np.full_like(drawn.values, np.nan)
    low, high = span or (run.store.first, run.store.last)
    rows = (totals.steps >= low) & (totals.steps <= high)
    skipped = totals.skipped[rows].filled(0.0) != 0
    updates = (totals.update[rows].filled(1.0) != 0) & ~skipped
    more = {
        "updates": updates & ~np.ma.getmaskarray(totals.clipped[rows]),
        "clipped": updates & (totals.clipped[rows].filled(0.0) != 0),
        "skipped": skipped,
    }
    counts = {
        name: np.bincount(bucket_of[some], minlength=len(drawn.first))
        for name, some in more.items()
    }
    if len(bucket_of):
        columns = [getattr(totals, name)[rows] for name in CURVES]
        numbers = np.column_stack([column.data for column in columns])
        measured = ~np.column_stack([np.ma.getmaskarray(column) for column in columns])
        of, starts = np.unique(bucket_of, return_index=True)
        drawn.values.T[of], drawn.flags.T[of] = worst(numbers, measured, starts)
        least.T[of] = -worst(-numbers, measured, starts)[0]
    return drawn, {"least": least, **counts}


def _unfilled(
    run: Run, names: tuple[str, ...], span: Span, most: int | None
) -> tuple[Heat, NDArray[np.intp]]:
    """Returns buckets of equal length without numbers, and that of each recorded step.

    There is one for each step if that fits. Where steps are unevenly spaced most of
    these would be empty: then there are as many buckets as steps. Without a maximum,
    each recorded step has a bucket to itself, and these are of unequal length.
    """
    low, high = span or (run.store.first, run.store.last)
    steps = run.steps[(run.steps >= low) & (run.steps <= high)]
    end, count = high + 1, max(1, min(most or len(steps), len(steps)))
    if most is not None and len(steps) > 1:
        closest = int(np.diff(steps).min())
        each = math.ceil((end - low) / closest)
        if each <= min(most, 2 * len(steps)):
            # A bucket then begins at each step, if `low` is one.
            end, count = low + each * closest, each
    # Multiplied first: 58 / 200 * 100 is below 29, and would be a bucket too early.
    of = np.clip(((steps - low) * count / (end - low)).astype(np.intp), 0, count - 1)
    of = np.arange(len(steps)) if most is None else of
    first, last = np.full((2, count), -1, np.int64)
    first[of[::-1]], last[of] = steps[::-1], steps
    # Laid out step by step, as the chunks are from which they are filled.
    shape = count, len(names)
    values, flags = np.full(shape, np.nan), np.zeros(shape, np.uint8)
    return Heat(names, low, end, first, last, values.T, flags.T), of


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
    flags = known * np.uint8(MEASURED)
    for test, flag in ((np.isnan, NAN), (np.isposinf, POSINF), (np.isneginf, NEGINF)):
        flags |= (test(numbers) & known) * np.uint8(flag)
    finite = np.where(np.isfinite(numbers) & known, numbers, np.nan)
    return (
        np.fmax.reduceat(finite, starts, axis=0),
        np.bitwise_or.reduceat(flags, starts, axis=0),
    )
