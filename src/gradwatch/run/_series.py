"""The columns of a run over time: of one variable, and of each step as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import counted
from ..summarise import bucket_edges, is_blank
from ._schema import standard_error_of

Column = np.ma.MaskedArray[Any, np.dtype[np.float64]]
"""float64; masked where nothing was measured. NaN was measured."""

Histograms = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Steps, and the counts at each."""


class _Columns:
    """Columns over the same steps, each also an attribute of its name."""

    def __init__(
        self, steps: NDArray[np.int64], columns: Mapping[str, NDArray[np.float64]]
    ) -> None:
        self.steps = steps
        self.columns = {name: masked(column) for name, column in columns.items()}
        vars(self).update(self.columns)

    @property
    def update_ratio(self) -> Column:
        """Relative size of an update: `update_norm / weight_norm`."""
        return ratio(self.columns["update_norm"], self.columns["weight_norm"])

    def standard_error(self, name: str) -> Column | None:
        """Returns the standard error of a column; None if it is no estimate."""
        return self.columns.get(standard_error_of(name))

    def __len__(self) -> int:
        return len(self.steps)


class Series(_Columns):
    """The numbers of one weight or activation, step by step.

    Every column is a masked array as long as `steps`: masked where nothing was
    measured. They are of the unscaled gradient before clipping, over what is finite.

    Example:
    >>> from gradwatch.run import Layout, Record, RunWriter, open_run
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
        size: Number of elements; 0 where that changes with the batch.
        steps: The steps at which it was recorded.
        columns: All columns by name, including any optional ones.
        norm: The Euclidean norm.
        zeros: The share of exact zeros, 0 to 1.
        underflow: The share of elements that are not zero but would be in float16.
        nan: Number of elements that are NaN.
        posinf: Number of elements that are infinite.
        neginf: Number of elements that are minus infinite.
        weight_norm: The norm of the weight.
        update_norm: The norm of its change at this step.
        applied_norm: The norm of what the optimizer's rule was given.
    """

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

    def __init__(
        self,
        key: tuple[str, str],
        size: int,
        steps: NDArray[np.int64],
        columns: Mapping[str, NDArray[np.float64]],
        read: Callable[[], Histograms],
    ) -> None:
        super().__init__(steps, columns)
        self.kind, self.name = key
        self.size = size
        self._read = read

    @cached_property
    def _histograms(self) -> Histograms:
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

    def __repr__(self) -> str:
        return f"<Series {self.name!r}: {self.kind}, {span(self.steps)}>"


class Totals(_Columns):
    """The numbers of each step as a whole; masked where they were not measured.

    Attributes:
        steps: The recorded steps.
        columns: All columns by name, including any optional ones.
        global_norm: The norm of all watched gradients together.
        applied_norm: The norm of what the optimizer's rule was given.
        weight_norm: The norm of all watched weights together.
        update_norm: The norm of their change at this step.
        clipped: 1 where gradients were clipped, else 0.
        skipped: 1 where loss scaling skipped the step, else 0.
        update: 0 while gradients are accumulated, else 1.
        loss_scale: The factor by which the loss was multiplied.
        learning_rate: The optimizer's learning rate.
        loss: The mean of the steps since the record before, or since the epoch began.
    """

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

    def __repr__(self) -> str:
        measured = [name for name, column in self.columns.items() if column.count()]
        return f"<Totals: {span(self.steps)}, {', '.join(measured) or 'none measured'}>"


def masked(column: NDArray[np.float64]) -> Column:
    """Returns a column that is masked where nothing was measured."""
    return np.ma.MaskedArray(column, mask=is_blank(column))


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
    """Returns the number of steps, the first and the last, as text."""
    if not len(steps):
        return "no steps"
    return f"{counted(len(steps), 'step')} from {steps[0]:,} to {steps[-1]:,}"
