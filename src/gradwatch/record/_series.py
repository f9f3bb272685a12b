"""One line of a run through its steps, and what is said of each step as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summarise import BUCKETS, COLUMNS, SCALED, bucket_edges, is_blank
from ._layout import TOTALS

Column = np.ma.MaskedArray[Any, np.dtype[np.float64]]
"""float64; masked where nothing was measured. NaN was measured."""

Histograms = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Steps, and the counts at each."""


@dataclass(frozen=True, repr=False, eq=False)
class Series:
    """The numbers of one weight or activation, step by step.

    Every column is a masked array as long as `steps`: masked where nothing was
    measured. They are of the unscaled gradient before clipping, over what is finite.

    Example:
    >>> from gradwatch.record import Layout, Record, RunWriter, open_run
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> layout = Layout(("dense/kernel",), ("weight",), (6,))
    >>> with RunWriter("runs/b") as writer:
    ...     writer.write(Record(7, layout, rows, None, {}))
    >>> series = open_run("runs/b")["dense/kernel"]
    >>> series
    <Series 'dense/kernel': weight, 1 step from 7 to 7>
    >>> print(series.norm, series.mean)
    [0.5] [--]

    Attributes:
        name: The address.
        kind: "weight", "activation" (its gradient) or "value" (itself).
        size: How many numbers it holds; 0 where that changes with the batch.
        steps: When it was recorded.
        norm: The Euclidean norm.
        zeros: The share of exact zeros, 0 to 1.
        underflow: The share of elements that are not zero but would be in float16.
        nan: How many are NaN.
        posinf: How many are infinite.
        neginf: How many are minus infinite.
        weight_norm: The norm of the weight.
        update_norm: The norm of its change at this step.
        applied_norm: The norm of what the optimizer's rule was given.
        exponent: Which power of two was divided out on disk; it is put back here.
    """

    name: str
    kind: str
    size: int
    steps: NDArray[np.int64]
    norm: Column
    mean: Column
    std: Column
    min: Column
    max: Column
    mean_abs: Column
    zeros: Column
    underflow: Column
    nan: Column
    posinf: Column
    neginf: Column
    weight_norm: Column
    update_norm: Column
    applied_norm: Column
    exponent: Column
    _read: Callable[[], Histograms] = field(repr=False)

    @property
    def update_ratio(self) -> Column:
        """How far a step moves the weight: `update_norm / weight_norm`."""
        return ratio(self.update_norm, self.weight_norm)

    @cached_property
    def _histograms(self) -> Histograms:
        if self.kind != "weight":  # of activations no histogram is recorded
            return np.empty(0, np.int64), np.empty((0, BUCKETS), np.int64)
        return self._read()

    @property
    def histogram_steps(self) -> NDArray[np.int64]:
        """The steps at which a histogram was recorded."""
        return self._histograms[0]

    @property
    def histograms(self) -> NDArray[np.int64]:
        """The counts, `[len(histogram_steps), len(edges) - 1]`."""
        return self._histograms[1]

    @property
    def edges(self) -> NDArray[np.float64]:
        """The edges of the buckets, ascending; the outermost take what is beyond."""
        return bucket_edges()

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"<Series {self.name!r}: {self.kind}, {span(self.steps)}>"


@dataclass(frozen=True, repr=False, eq=False)
class Totals:
    """What is said of each step as a whole; masked where it was not measured.

    Attributes:
        steps: When it was recorded.
        global_norm: The norm of all watched gradients together.
        applied_norm: The norm of what the optimizer's rule was given.
        weight_norm: The norm of all watched weights together.
        update_norm: The norm of their change at this step.
        clipped: 1 where gradients were clipped, else 0.
        skipped: 1 where loss scaling skipped the step, else 0.
        update: 0 while gradients are accumulated, else 1.
        loss_scale: By which the loss was multiplied.
        learning_rate: Of the optimizer.
        loss: The mean of the steps since the record before, or since the epoch began.
    """

    steps: NDArray[np.int64]
    global_norm: Column
    applied_norm: Column
    weight_norm: Column
    update_norm: Column
    clipped: Column
    skipped: Column
    update: Column
    loss_scale: Column
    learning_rate: Column
    loss: Column

    @property
    def update_ratio(self) -> Column:
        """How far a step moves the weights: `update_norm / weight_norm`."""
        return ratio(self.update_norm, self.weight_norm)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        measured = [f.name for f in fields(self) if f.name in TOTALS]
        measured = [n for n in measured if getattr(self, n).count()]
        return f"<Totals: {span(self.steps)}, {', '.join(measured) or 'none measured'}>"


def totals(steps: Mapping[int, Mapping[str, float]]) -> Totals:
    """Returns the totals by name, from those by step."""
    columns = {}
    for name in TOTALS:
        numbers = [found.get(name) for found in steps.values()]
        columns[name] = np.ma.MaskedArray(
            np.array([0.0 if n is None else n for n in numbers], np.float64),
            mask=[n is None for n in numbers],
        )
    return Totals(np.array(list(steps), np.int64), **columns)


def columns_of(rows: NDArray[np.float32], names: tuple[str, ...]) -> dict[str, Column]:
    """Returns the columns of lines, `[…, columns]`, by name and in full range.

    A column that the file does not know, being older, was not measured.
    """
    blank = is_blank(rows)
    wide = rows.astype(np.float64)
    found: dict[str, Column] = {}
    for name in COLUMNS:
        if name in names:
            at = names.index(name)
            found[name] = np.ma.MaskedArray(wide[..., at], mask=blank[..., at])
        else:
            absent = np.zeros(rows.shape[:-1])
            found[name] = np.ma.MaskedArray(absent, mask=True)
    exponent = found["exponent"].filled(0.0)
    power = np.where(np.isfinite(exponent), exponent, 0.0).astype(np.int64)
    if power.any():
        for name in SCALED:
            scaled = np.ldexp(found[name].data, power)
            found[name] = np.ma.MaskedArray(scaled, mask=found[name].mask)
    return found


def ratio(above: Column, below: Column) -> Column:
    """Returns the quotient; masked where a part is, and `inf` or NaN over zero.

    NumPy's own division of masked arrays would mask what is divided by zero, as if it
    had not been measured.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient = above.data / below.data
    either = np.ma.getmaskarray(above) | np.ma.getmaskarray(below)
    return np.ma.MaskedArray(quotient, mask=either)


def span(steps: NDArray[np.int64]) -> str:
    """Returns how many steps there are, and from where to where."""
    if not len(steps):
        return "no steps"
    noun = "step" if len(steps) == 1 else "steps"
    return f"{len(steps):,} {noun} from {steps[0]:,} to {steps[-1]:,}"
