"""What is said of each step as a whole, in few buckets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...run import TOTALS, Store
from ._buckets import MEASURED, NAN, NEGINF, POSINF, Buckets

CURVES = (
    *("global_norm", "applied_norm", "update_ratio"),
    *("loss", "learning_rate", "loss_scale"),
)
"""The totals that are drawn as curves."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves by buckets; low and high are over what is finite, else NaN.

    Attributes:
        first: The first recorded step of each bucket; -1 where there is none.
        last: The last one, likewise.
        low: float64, `[curves, buckets]`: the smallest number.
        high: The largest, likewise.
        flags: uint8, as in `Heat`.
        updates: How many recorded steps of each bucket were updates.
        clipped: How many of these were clipped.
        skipped: How many steps loss scaling skipped.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    flags: NDArray[np.uint8]
    updates: NDArray[np.int64]
    clipped: NDArray[np.int64]
    skipped: NDArray[np.int64]


def curves(
    store: Store, span: tuple[float, float] | None = None, count: int = 1024
) -> Curves:
    """Returns the curves between two steps, in at most so many buckets."""
    low, high = span if span is not None else (store.first, store.last)
    inside = list(store.between(low, high))
    steps = np.array([], np.int64)
    numbers, there = np.empty((len(TOTALS), 0)), np.empty((len(TOTALS), 0), bool)
    if inside:
        steps = np.concatenate([chunk.steps[rows] for chunk, rows in inside])
        numbers = np.concatenate([c.totals[:, rows] for c, rows in inside], axis=1)
        there = np.concatenate([c.measured[:, rows] for c, rows in inside], axis=1)
    buckets = Buckets.fit(steps, low, high, count)
    of, starts = buckets.runs(steps)
    shape = len(CURVES), buckets.count
    found = Curves(
        np.full(buckets.count, -1, np.int64),
        np.full(buckets.count, -1, np.int64),
        np.full(shape, np.nan),
        np.full(shape, np.nan),
        np.zeros(shape, np.uint8),
        *(np.zeros(buckets.count, np.int64) for _ in range(3)),
    )
    if not len(steps):
        return found
    found.first[of] = steps[starts]
    found.last[of] = steps[np.append(starts[1:], len(steps)) - 1]
    for line, name in enumerate(CURVES):
        values, known = _curve(name, numbers, there)
        _fill(found, line, (of, starts), values, known)
    at = {name: place for place, name in enumerate(TOTALS)}
    skipped = there[at["skipped"]] & (numbers[at["skipped"]] != 0)
    update = ~(there[at["update"]] & (numbers[at["update"]] == 0)) & ~skipped
    clipped = there[at["clipped"]] & (numbers[at["clipped"]] != 0) & update
    found.updates[of] = np.add.reduceat(
        (update & there[at["clipped"]]).astype(int), starts
    )
    found.clipped[of] = np.add.reduceat(clipped.astype(int), starts)
    found.skipped[of] = np.add.reduceat(skipped.astype(int), starts)
    return found


def _curve(
    name: str, numbers: NDArray[np.float64], there: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    if name != "update_ratio":
        at = TOTALS.index(name)
        return numbers[at], there[at]
    above, below = TOTALS.index("update_norm"), TOTALS.index("weight_norm")
    with np.errstate(all="ignore"):
        return numbers[above] / numbers[below], there[above] & there[below]


def _fill(
    found: Curves,
    line: int,
    where: tuple[NDArray[np.intp], NDArray[np.intp]],
    values: NDArray[np.float64],
    known: NDArray[np.bool_],
) -> None:
    of, starts = where
    finite = np.where(known & np.isfinite(values), values, np.nan)
    found.low[line, of] = np.fmin.reduceat(finite, starts)
    found.high[line, of] = np.fmax.reduceat(finite, starts)
    kinds = (
        (np.isnan(values) & known, NAN),
        (np.isposinf(values) & known, POSINF),
        (np.isneginf(values) & known, NEGINF),
        (known, MEASURED),
    )
    for some, flag in kinds:
        marks = np.logical_or.reduceat(some, starts) * np.uint8(flag)
        found.flags[line, of] |= marks
