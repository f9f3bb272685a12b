"""Numbers about the attributions of a whole dataset, in one pass over it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._result import Attribution

PARTS = ("score", "baseline_score", "delta")


def summary(batches: Iterable[Attribution]) -> dict[str, Any]:
    """Returns mean, mean size and range of each part; None where none is finite."""
    parts: dict[str, list[list[float]]] = {name: [] for name in PARTS}
    values: dict[str, list[list[float]]] = defaultdict(list)
    for batch in batches:
        for name in PARTS:
            if getattr(batch, name) is not None:
                parts[name] += _sums(getattr(batch, name))
        for place in batch.places:
            values[place.name] += _sums(place.values)
    return {
        **{name: _combined(sums) for name, sums in parts.items()},
        "values": {name: _combined(sums) for name, sums in values.items()},
    }


def _sums(numbers: np.ndarray) -> list[list[float]]:
    """Returns count, sum, sum of sizes, minimum and maximum of the finite numbers."""
    finite = numbers[np.isfinite(numbers)].astype("float64")
    if not finite.size:
        return []
    sums = finite.size, finite.sum(), np.abs(finite).sum(), finite.min(), finite.max()
    return [[float(number) for number in sums]]


def _combined(sums: Sequence[Sequence[float]]) -> dict[str, float | None]:
    if not sums:
        return dict.fromkeys(("mean", "mean_abs", "min", "max"))
    counts, totals, sizes, lows, highs = zip(*sums, strict=True)
    count = sum(counts)
    mean, size = sum(totals) / count, sum(sizes) / count
    return {"mean": mean, "mean_abs": size, "min": min(lows), "max": max(highs)}
