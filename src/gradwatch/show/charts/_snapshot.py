"""One recorded step in full, and the histograms of one weight over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import Chunk, Run
from ...summarise import BUCKETS
from ._heat import NONFINITE, Span, worst
from ._quantities import QUANTITIES, Quantity


def snapshot(run: Run, index: int, kind: str) -> dict[str, NDArray[Any]]:
    """Returns all quantities of the rows of one kind at a recorded step.

    They are `values`, float64, `[quantities, rows]`, in the order of `QUANTITIES`;
    `flags`, uint8, likewise: `MEASURED`, and what the number itself is; and `counts`,
    `[3, rows]`: the numbers of elements that are NaN, +inf and -inf.

    Args:
        run: The run.
        index: The index of the step among the recorded ones.
        kind: The rows: one of `KINDS`.
    """
    store = run.store
    chunk, at = store.at(index)
    to, source = store.rows_of(chunk.layout, kind)
    count = len(store.names(kind))
    if to is None or source is None:
        to = source = np.arange(count)
    values = np.full((len(QUANTITIES), count), np.nan, np.float64)
    flags = np.zeros((len(QUANTITIES), count), np.uint8)
    alone = np.zeros(1, np.intp)
    for row, quantity in enumerate(QUANTITIES.values()):
        numbers, marks = worst(*quantity.of(chunk, slice(at, at + 1)), alone)
        values[row, to], flags[row, to] = numbers[0, source], marks[0, source]
    counts = np.zeros((len(NONFINITE), count), np.float64)
    for row, name in enumerate(NONFINITE):
        counts[row, to] = np.nan_to_num(chunk.column(name)[at, source])
    return {"values": values, "flags": flags, "counts": counts}


def worst_index(
    run: Run, key: tuple[str, str], quantity: Quantity, span: tuple[float, float]
) -> int | None:
    """Returns the index of the recorded step that a cell of a heat map shows.

    The first with an element that is not finite, if there is one; else the one with the
    largest number.

    Args:
        run: The run.
        key: The kind and the address of the row.
        quantity: The quantity that the heat map shows.
        span: The first and the last step of the cell.
    """
    steps, ranks = [], []
    for chunk, rows, row in _chunks_with(run, key, span):
        numbers, measured = quantity.of(chunk, rows)
        values = numbers[:, row]
        known = np.full(len(values), True) if measured is None else measured[:, row]
        bad = known & ~np.isfinite(values)
        for name in NONFINITE:
            bad |= chunk.column(name)[rows, row] > 0
        values = np.where(known & np.isfinite(values), values, -np.inf)
        steps += chunk.steps[rows].tolist()
        ranks += list(zip(bad.tolist(), values.tolist(), strict=True))
    if not ranks:
        return None
    return int(np.searchsorted(run.steps, steps[ranks.index(max(ranks))]))


def histograms(
    run: Run, name: str, span: Span = None, count: int = 120
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns steps, and the counts of a weight at each: `[steps, BUCKETS]`.

    Of more than `count`, evenly spaced ones, including the first and the last.
    """
    every = []
    for chunk, rows, row in _chunks_with(run, ("weight", name), span):
        recorded = zip(chunk.steps[rows], chunk.counts[rows], strict=True)
        every += [(step, each, row) for step, each in recorded if each is not None]
    if len(every) > count:
        chosen = np.linspace(0, len(every) - 1, count).round().astype(int)
        every = [every[index] for index in chosen]
    steps = np.array([step for step, _, _ in every], np.int64)
    read = [counts()[row] for _, counts, row in every]
    return steps, np.array(read, np.int64).reshape(-1, BUCKETS)


def _chunks_with(
    run: Run, key: tuple[str, str], span: Span
) -> Iterator[tuple[Chunk, slice, int]]:
    """Yields chunks with steps in a span that have a row, these steps, and the row."""
    for chunk, rows in run.store.between(*(span or (run.store.first, run.store.last))):
        keys = list(zip(chunk.layout.kinds, chunk.layout.names, strict=True))
        if key in keys:
            yield chunk, rows, keys.index(key)
