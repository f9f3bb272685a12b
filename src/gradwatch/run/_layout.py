"""What is written: the lines of a matrix by name, and one recorded step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KINDS = ("weight", "activation", "value")
"""Of what a line speaks: a weight's gradient, an activation's, or its value."""

TOTALS = (
    *("global_norm", "applied_norm", "weight_norm", "update_norm"),
    *("clipped", "skipped", "update", "loss_scale", "learning_rate", "loss"),
)
"""What is said of a step as a whole.

The four norms are over all watched weights together. `clipped`, `skipped` (by loss
scaling) and `update` (0 while gradients are accumulated) are 1 or 0. `loss` is the mean
of the steps since the record before it, or since the epoch began.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which line of a matrix is what, along the depth of the model.

    Example:
    >>> layout = Layout(("a/kernel", "a"), ("weight", "activation"), (12, 0))
    >>> len(layout)
    2

    Attributes:
        names: The addresses.
        kinds: One of `KINDS` for each of them.
        sizes: How many numbers each holds; 0 where that changes with the batch.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded step.

    Attributes:
        step: Optimizer steps of this run before it: 0 is the first.
        layout: What the lines are.
        rows: float64, `[len(layout), len(COLUMNS)]`; `blank` where not measured.
        histograms: Counts, `[len(layout), BUCKETS]`, or `None` where not due.
        totals: By the names of `TOTALS`; a name that is absent was not measured.
    """

    step: int
    layout: Layout
    rows: NDArray[np.float64]
    histograms: NDArray[np.integer] | None
    totals: Mapping[str, float]
