"""One recorded step as the rules read it, and what came before it.

The newest records are a window of the column store, the same store that the tab and
the report read. Beside it stands only what outlives the window: the first steps, the
loss, and which weights ever had a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import TOTALS, Chunk, Layout, Record, Run, Store
from ...summarise import COLUMNS, is_blank
from ._loss import LossHistory
from ._parameters import ParameterIndex

Numbers = NDArray[np.float64]

WINDOW = 32
"""Number of recorded steps that are kept one by one."""
EARLY = 5
"""Number of first steps that tell how large the gradient was at the beginning."""

_AT = {name: index for index, name in enumerate(COLUMNS)}
_NONFINITE = [_AT[kind] for kind in ("nan", "posinf", "neginf")]


def median(numbers: Numbers) -> float:
    """Returns the median, the upper one of two; that of NumPy takes ten times as long.

    Example:
    >>> median(np.array([3.0, 1.0, 2.0]))
    2.0
    """
    middle = len(numbers) // 2
    return float(np.partition(numbers, middle)[middle])


class History:
    """The steps so far, as far as a rule asks for them.

    Args:
        facts: The note "model" of the run; with less of it, fewer symptoms are seen.

    Attributes:
        count: Number of recorded steps so far.
        first_step: The first of them.
        loss: The losses so far.
        reached: True for weights that have had a gradient other than zero.
        early_norm: The norm of all gradients at the beginning; NaN until it is known.
        early_norms: The norm of each gradient at the beginning, the largest of the
            first steps.
        first_weight_norm: The norm of all weights when it was first recorded.
    """

    def __init__(self, facts: Mapping[str, Any] | None = None) -> None:
        self.count = 0
        self.first_step = 0
        self.loss = LossHistory()
        self.reached: NDArray[np.bool_] | None = None
        self.early_norm = math.nan
        self.early_norms: Numbers | None = None
        self.first_weight_norm = math.nan
        self._facts = facts or {}
        self._parameters = ParameterIndex(Layout((), (), ()), {})
        self._store = Store(window=WINDOW)
        self._early: list[tuple[float, Numbers]] = []  # norms of all, and of each

    def append(self, record: Record) -> None:
        """Appends a record to the store."""
        if not self.count or self._parameters.layout != record.layout:
            # Other rows come: what is remembered of each row is of another weight.
            self._parameters = ParameterIndex(record.layout, self._facts)
            self.reached = self.early_norms = None
        self._store.append(record)
        self.first_step = self.first_step if self.count else record.step
        self.count += 1
        norms = record.rows[self._parameters.weights, _AT["norm"]]
        there = norms != 0
        self.reached = there if self.reached is None else self.reached | there
        self.loss.add(record.totals.get("loss"))
        if math.isnan(self.first_weight_norm):
            self.first_weight_norm = record.totals.get("weight_norm", math.nan)
        norm = record.totals.get("global_norm", math.nan)
        if len(self._early) < EARLY and math.isfinite(norm):
            self._early.append((norm, np.where(is_blank(norms), math.nan, norms)))
            if len(self._early) == EARLY:
                totals, rows = zip(*self._early, strict=True)
                self.early_norm = max(totals) or math.nan
                if len(set(map(len, rows))) == 1:
                    self.early_norms = np.max(rows, axis=0)

    def snapshot(self) -> Snapshot:
        """Returns the newest step as the rules read it."""
        return Snapshot(self._store.chunks[-1], self._parameters, self)

    def newest(
        self, name: str, count: int = WINDOW, *, updates: bool = False
    ) -> Numbers:
        """Returns a total at the newest steps, where it was measured.

        Args:
            name: One of `TOTALS`.
            count: Number of the newest recorded steps to look at.
            updates: Only those that updated the weights.
        """
        values, measured = self._totals(name)
        if updates:
            update, known = self._totals("update")
            measured = measured & ((update != 0) | ~known)
        return values[-count:][measured[-count:]]

    def window(self, name: str, count: int = WINDOW) -> Numbers:
        """Returns a column of the weights, `[steps, weights]`, with these rows."""
        chunks, rows = self._store.chunks, self._parameters.weights
        layout = self._parameters.layout
        same = takewhile(lambda chunk: chunk.layout == layout, reversed(chunks))
        parts = [chunk.column(name)[:, rows] for chunk in same]
        column = np.concatenate(parts[::-1])[-count:]
        return np.where(is_blank(column), math.nan, column)

    def _totals(self, name: str) -> tuple[Numbers, NDArray[np.bool_]]:
        row, chunks = TOTALS.index(name), self._store.chunks
        values = [chunk.totals[row, : chunk.count] for chunk in chunks]
        joined = values[0] if len(values) == 1 else np.concatenate(values)
        return joined, ~is_blank(joined)


@dataclass(frozen=True)
class SnapshotColumns:
    """The columns of some rows at one step, NaN where nothing was measured."""

    names: tuple[str, ...]
    data: Numbers

    def __getitem__(self, column: str) -> Numbers:
        values: Numbers = self.data[_AT[column]]
        return values

    def named(self, values: Numbers) -> dict[str, float]:
        """Returns a number of each row by name."""
        return dict(zip(self.names, values.tolist(), strict=True))

    @property
    def nonfinite(self) -> Numbers:
        """The number of elements that are not finite."""
        return np.asarray(np.nan_to_num(self.data[_NONFINITE]).sum(axis=0))

    @property
    def size(self) -> Numbers:
        """The root mean square of each."""
        return np.asarray(np.hypot(self["mean"], self["std"]))


class Snapshot:
    """One recorded step: columns of the weights, NaN where nothing was measured.

    Args:
        chunk: The part of the store whose newest step this is.
        parameters: The rows by role.
        history: The steps so far.

    Attributes:
        step: The number of the step.
        age: Number of steps since the first recorded one.
        updates: True if this step changed the weights.
        skipped: True if loss scaling skipped it.
        activations: The values of the activations.
        activation_gradients: The gradients of the activations.
        norm: The norm of each gradient.
        zeros: The share of exact zeros in each gradient.
        weight_norm: The norm of each weight before the update.
        update_norm: The norm of each update.
        nonfinite: The number of elements of each gradient that are not finite.
        rms: The root mean square of each gradient: its size, however many elements.
        sensitivity: Gradient times weight: how the loss answers to a change in per
            cent. It is the same in all layers of a healthy network of rectifiers,
            however wide.
        update_ratio: Update over weight; NaN for weights that are zero.
    """

    def __init__(
        self, chunk: Chunk, parameters: ParameterIndex, history: History
    ) -> None:
        newest = chunk.count - 1
        self.step = int(chunk.steps[newest])
        self.totals = chunk.totals_at(newest)
        self.parameters = parameters
        self.history = history
        self.age = self.step - history.first_step
        self.updates = bool(self.totals.get("update", 1.0))
        self.skipped = bool(self.totals.get("skipped", 0.0))
        data = chunk.data[:, newest]
        data = np.where(is_blank(data), math.nan, data)

        def columns(rows: NDArray[np.int64]) -> SnapshotColumns:
            names = tuple(parameters.layout.names[row] for row in rows)
            return SnapshotColumns(names, data[:, rows])

        weights = columns(parameters.weights)
        self.activations = columns(parameters.activations)
        self.activation_gradients = columns(parameters.activation_gradients)
        self.norm, self.zeros = weights["norm"], weights["zeros"]
        self.weight_norm = weights["weight_norm"]
        self.update_norm = weights["update_norm"]
        self.nonfinite = weights.nonfinite
        with np.errstate(all="ignore"):
            roots = np.sqrt(np.maximum(parameters.sizes, 1.0))
            self.rms: Numbers = self.norm / roots
            positive = self.weight_norm > 0
            product = self.norm * self.weight_norm
            self.sensitivity = np.where(positive, product, self.norm)
            ratio = self.update_norm / self.weight_norm
            self.update_ratio = np.where(positive, ratio, math.nan)

    def total(self, name: str) -> float:
        """Returns a number of the step as a whole; NaN where it is not known."""
        return float(self.totals.get(name, math.nan))


def snapshots(run: Run) -> Iterator[Snapshot]:
    """Yields the recorded steps as the rules read them."""
    history = History(run.notes.get("model"))
    for record in run.records():
        history.append(record)
        yield history.snapshot()
