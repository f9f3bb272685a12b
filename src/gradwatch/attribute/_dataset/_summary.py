"""Numbers about the attributions of a whole dataset, in one go over it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from .._result import Attribution


class Batched(Protocol):
    """What is summed up."""

    complete: bool

    @property
    def nonfinite(self) -> int:
        """How many examples have a value that is not finite."""

    @property
    def num_batches(self) -> int:
        """How many batches there are."""

    def __len__(self) -> int: ...

    def batches(self) -> Iterator[Attribution]:
        """Gives one batch after the other."""


class Running:
    """Mean, mean size and range of the finite numbers among many."""

    def __init__(self) -> None:
        self.count = 0
        self.total = self.size = 0.0
        self.low, self.high = np.inf, -np.inf

    def add(self, numbers: np.ndarray) -> None:
        """Takes some more."""
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            self.count += finite.size
            self.total += float(finite.sum(dtype="float64"))
            self.size += float(np.abs(finite).sum(dtype="float64"))
            self.low = min(self.low, float(finite.min()))
            self.high = max(self.high, float(finite.max()))

    def told(self) -> dict[str, float | None]:
        """Returns the numbers; None where none was finite."""
        if not self.count:
            return dict.fromkeys(("mean", "mean_abs", "min", "max"))
        mean, size = self.total / self.count, self.size / self.count
        return {"mean": mean, "mean_abs": size, "min": self.low, "max": self.high}


def summary(dataset: Batched) -> dict[str, Any]:
    """Returns what `AttributedDataset.summary` does."""
    parts = {name: Running() for name in ("score", "baseline_score", "delta")}
    values: dict[str, Running] = {}
    for batch in dataset.batches():
        for name, running in parts.items():
            numbers = getattr(batch, name)
            if numbers is not None:
                running.add(numbers)
        for place in batch.places:
            values.setdefault(place.name, Running()).add(place.values)
    return {
        "examples": len(dataset),
        "batches": dataset.num_batches,
        "complete": dataset.complete,
        "nonfinite": dataset.nonfinite,
        **{name: running.told() for name, running in parts.items()},
        "values": {name: running.told() for name, running in values.items()},
    }
