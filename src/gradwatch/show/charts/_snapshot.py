"""One recorded step in full, and the histograms of one weight over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import Run
from ...summarise import BUCKETS, HIGHEST, LOWEST
from ._heat import MEASURED, NONFINITE, Span, heat
from ._quantities import QUANTITIES, Quantity

OCTAVES = {"lowest": LOWEST, "highest": HIGHEST, "buckets": BUCKETS}
"""The powers of two between which histograms count, and the number of buckets."""


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
    span = (run.steps[index],) * 2
    counted = [Quantity(name, name, "") for name in NONFINITE]
    cells, counts = (
        [heat(run, each, kind, span, 1, elements=False) for each in quantities]
        for quantities in (QUANTITIES.values(), counted)
    )
    return {
        "values": np.column_stack([each.values for each in cells]).T,
        "flags": np.column_stack([each.flags for each in cells]).T,
        "counts": np.nan_to_num(np.column_stack([each.values for each in counts])).T,
    }


def worst_index(
    run: Run, key: tuple[str, str], quantity: Quantity, span: tuple[float, float]
) -> int | None:
    """Returns the index of the recorded step that a cell of a heat map shows.

    The first with an element that is not finite, if there is one; else the one with the
    largest number. `None` if nothing was measured there.

    Args:
        run: The run.
        key: The kind and the address of the row.
        quantity: The quantity that the heat map shows.
        span: The first and the last step of the cell.
    """
    kind, name = key
    drawn = heat(run, quantity, kind, span, None)
    if name not in drawn.names:
        return None
    row = drawn.names.index(name)
    flags, values = drawn.flags[row], np.nan_to_num(drawn.values[row], nan=-np.inf)
    if not flags.any():
        return None
    order = np.lexsort((-values, (flags & ~np.uint8(MEASURED)) == 0))
    return int(np.searchsorted(run.steps, drawn.first[order[0]]))


def histograms(
    run: Run, name: str, span: Span = None, count: int = 120
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns steps, and the counts of a weight at each: `[steps, BUCKETS]`.

    Of more than `count`, evenly spaced ones, including the first and the last.
    """
    every = []
    for chunk, rows in run.store.between(*(span or (run.store.first, run.store.last))):
        keys = chunk.layout.keys
        if ("weight", name) in keys:
            row = keys.index(("weight", name))
            recorded = zip(chunk.steps[rows], chunk.counts[rows], strict=True)
            every += [(step, each, row) for step, each in recorded if each is not None]
    if len(every) > count:
        chosen = np.linspace(0, len(every) - 1, count).round().astype(int)
        every = [every[index] for index in chosen]
    steps = np.array([step for step, _, _ in every], np.int64)
    read = [counts()[row] for _, counts, row in every]
    return steps, np.array(read, np.int64).reshape(-1, BUCKETS)
