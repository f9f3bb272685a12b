"""The schema of a run: what is recorded of a training step, in memory and on disk.

A record is a matrix of float64 with a row for each watched tensor and a column for each
quantity, the totals of the step, and where due the counts of histograms of `BUCKETS`
buckets. "Not measured" is `blank`, which is neither zero nor NaN. What `COLUMNS` and
the buckets mean is defined where they are computed, in `summarise`.

Later versions add columns, not formats:

* Optional columns and totals. A layout names its own: `COLUMNS` and `TOTALS` first,
  then any others. A reader keeps columns that it does not know under their names, and
  fills those that a file lacks with `blank`.
* Estimates. A column or total `x` that is an estimate may have a companion `x_se`,
  which is its standard error in the same unit (see `standard_error_of`).
* Replicas. `Record.replicas` holds the rows of each replica where a training is
  distributed; absent means one replica. `Record.rows` is always that of all together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..summarise import COLUMNS, blank, is_blank

FORMAT = 4
"""The version of the format on disk; a reader takes no other."""

KINDS = ("weight", "activation", "value")
"""Kinds of row: the gradient of a weight, that of an activation, an activation."""

TOTALS = (
    *("global_norm", "applied_norm", "weight_norm", "update_norm"),
    *("clipped", "skipped", "update", "loss_scale", "learning_rate", "loss"),
)
"""The numbers of a step as a whole.

The four norms are over all watched weights together. `clipped`, `skipped` (by loss
scaling) and `update` (0 while gradients are accumulated) are 1 or 0. `loss` is the mean
of the steps since the record before it, or since the epoch began.
"""


def standard_error_of(name: str) -> str:
    """Returns the name of the column that holds the standard error of an estimate.

    Example:
    >>> standard_error_of("noise_scale")
    'noise_scale_se'
    """
    return f"{name}_se"


def known_first(known: tuple[str, ...], names: Iterable[str]) -> tuple[str, ...]:
    """Returns the names that this version knows, then the others in their order."""
    return tuple(dict.fromkeys([*known, *names]))


def measured(names: Iterable[str], numbers: NDArray[np.float64]) -> dict[str, float]:
    """Returns the numbers by name, without those that are `blank`."""
    named = zip(names, numbers.tolist(), is_blank(numbers), strict=True)
    return {name: number for name, number, absent in named if not absent}


def in_order(names: Iterable[str], named: Mapping[str, float]) -> NDArray[np.float64]:
    """Returns the numbers of these names, `blank` where there is none.

    Example:
    >>> measured("abc", in_order("abc", {"c": 2.0, "a": 1.0}))
    {'a': 1.0, 'c': 2.0}
    """
    numbers = blank(len(known := tuple(names)))
    for index, name in enumerate(known):
        if name in named:
            numbers[index] = named[name]
    return numbers


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows, columns and totals of a record, by name.

    Example:
    >>> layout = Layout(("a/kernel", "a"), ("weight", "activation"), (12, 0))
    >>> len(layout)
    2

    Attributes:
        names: The addresses, along the depth of the model.
        kinds: One of `KINDS` for each of them.
        sizes: Number of elements of each; 0 where that changes with the batch.
        columns: The columns of a row: `COLUMNS`, then any optional ones.
        totals: The totals of a step: `TOTALS`, then any optional ones.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    sizes: tuple[int, ...]
    columns: tuple[str, ...] = COLUMNS
    totals: tuple[str, ...] = TOTALS

    def __len__(self) -> int:
        return len(self.names)

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The kind and the name of each row."""
        return list(zip(self.kinds, self.names, strict=True))


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded step.

    Attributes:
        step: Optimizer steps of this run before it: 0 is the first.
        layout: The names of its rows, columns and totals.
        rows: float64, `[rows, columns]`; `blank` where not measured.
        histograms: Counts, `[rows, BUCKETS]`, or `None` where not due.
        totals: By the names of `layout.totals`; an absent name was not measured.
        replicas: float64, `[replicas, rows, columns]`, or `None` if there is one.
    """

    step: int
    layout: Layout
    rows: NDArray[np.float64]
    histograms: NDArray[np.integer] | None
    totals: Mapping[str, float]
    replicas: NDArray[np.float64] | None = None
