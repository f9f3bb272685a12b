"""One recorded step as the rules read it, and what came before it.

The newest records are kept as they come. Beside them stands only what outlives them:
the first steps, the loss, and which weights ever had a gradient.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import Layout, Record, Run
from ...summarise import COLUMNS
from ._loss import LossHistory
from ._parameters import ParameterIndex

Numbers = NDArray[np.float64]

WINDOW = 32
"""Number of recorded steps that are kept one by one."""
EARLY = 5
"""Number of first steps that tell how large the gradient was at the beginning."""

_AT = {name: index for index, name in enumerate(COLUMNS)}
_NONFINITE = slice(_AT["nan"], _AT["neginf"] + 1)


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

    Whatever changes is replaced, not changed in place: a copy keeps what it has.

    Args:
        facts: The note "model" of the run; with less of it, fewer symptoms are seen.

    Attributes:
        records: The newest ones, without histograms.
        parameters: The rows of the newest record by role.
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
        self.records: tuple[Record, ...] = ()
        self.parameters = ParameterIndex(Layout((), (), ()), {})
        self.count = 0
        self.first_step = 0
        self.loss = LossHistory()
        self.reached: NDArray[np.bool_] | None = None
        self.early_norm = math.nan
        self.early_norms: Numbers | None = None
        self.first_weight_norm = math.nan
        self._facts = facts or {}
        self._early: tuple[tuple[float, Numbers], ...] = ()  # norms of all, and of each

    def append(self, record: Record) -> Snapshot:
        """Appends a record, and returns its step as the rules read it.

        The step has a history of its own: it may be read when others have followed.
        """
        if not self.count or self.parameters.layout != record.layout:
            # Other rows come: what is remembered of each row is of another weight.
            self.parameters = ParameterIndex(record.layout, self._facts)
            self.reached = self.early_norms = None
        # A copy, so that the arrays of all records that were made at once can go.
        own = record.rows.copy()
        kept = Record(record.step, record.layout, own, None, record.totals)
        self.records = (*self.records[1 - WINDOW :], kept)
        self.first_step = self.first_step if self.count else record.step
        self.count += 1
        self.loss = self.loss.after(record.totals.get("loss"))
        if math.isnan(self.first_weight_norm):
            self.first_weight_norm = record.totals.get("weight_norm", math.nan)
        norms = record.rows[self.parameters.rows["weight"], _AT["norm"]]
        there = norms != 0
        self.reached = there if self.reached is None else self.reached | there
        norm = record.totals.get("global_norm", math.nan)
        if len(self._early) < EARLY and math.isfinite(norm):
            self._early = (*self._early, (norm, norms))
            if len(self._early) == EARLY:
                totals, rows = zip(*self._early, strict=True)
                self.early_norm = max(totals) or math.nan
                if len(set(map(len, rows))) == 1:
                    self.early_norms = np.max(rows, axis=0)
        return Snapshot(copy.copy(self))

    def newest(
        self, name: str, count: int = WINDOW, *, updates: bool = False
    ) -> Numbers:
        """Returns a total at the newest steps, where it was measured.

        Args:
            name: One of `TOTALS`.
            count: Number of the newest recorded steps to look at.
            updates: Only those that updated the weights.
        """
        each = [record.totals for record in self.records[-count:]]
        if updates:
            each = [totals for totals in each if totals.get("update", 1.0) != 0]
        return np.array([totals[name] for totals in each if name in totals], float)

    def window(self, name: str, count: int = WINDOW) -> Numbers:
        """Returns a column of the weights, `[steps, weights]`, with these rows."""
        rows, layout = self.parameters.rows["weight"], self.parameters.layout
        newest = reversed(self.records[-count:])
        same = takewhile(lambda record: record.layout == layout, newest)
        return np.array([record.rows[rows, _AT[name]] for record in same][::-1])


class SnapshotColumns:
    """The columns of some rows at one step, NaN where nothing was measured.

    Args:
        record: The record of the step.
        rows: The indices of the rows.
    """

    def __init__(self, record: Record, rows: NDArray[np.int64]) -> None:
        self._record, self._rows = record, rows

    def __getitem__(self, column: str) -> Numbers:
        return np.asarray(self._record.rows[self._rows, _AT[column]])

    def named(self, values: Numbers) -> dict[str, float]:
        """Returns a number of each row by name."""
        return dict(zip(self.names, values.tolist(), strict=True))

    @property
    def names(self) -> list[str]:
        """The names of the rows."""
        return [self._record.layout.names[row] for row in self._rows]

    @cached_property
    def nonfinite(self) -> Numbers:
        """The number of elements of each that are not finite."""
        counts = self._record.rows[self._rows, _NONFINITE]
        return np.asarray(np.fmax(counts, 0.0).sum(axis=1))

    @property
    def size(self) -> Numbers:
        """The root mean square of each."""
        return np.asarray(np.hypot(self["mean"], self["std"]))


class Snapshot(SnapshotColumns):
    """The newest recorded step: the columns of the weights, and what is made of them.

    Args:
        history: The steps so far; this is the newest.

    Attributes:
        step: The number of the step.
        totals: The numbers of the step as a whole, those that were measured.
        parameters: The rows by role.
        history: The steps so far.
        age: Number of steps since the first recorded one.
        updates: True if this step changed the weights.
        skipped: True if loss scaling skipped it.
        is_broken: True if some element, of a gradient or activation, is not finite.
        activations: The columns of the values of activations.
        activation_gradients: Those of the gradients of activations.
    """

    def __init__(self, history: History) -> None:
        record, rows = history.records[-1], history.parameters.rows
        super().__init__(record, rows["weight"])
        self.activations = SnapshotColumns(record, rows["value"])
        self.activation_gradients = SnapshotColumns(record, rows["activation"])
        self.step = record.step
        self.totals = record.totals
        self.parameters = history.parameters
        self.history = history
        self.age = self.step - history.first_step
        self.updates = bool(self.totals.get("update", 1.0))
        self.skipped = bool(self.totals.get("skipped", 0.0))
        self.is_broken = bool((record.rows[:, _NONFINITE] > 0).any())

    @cached_property
    def rms(self) -> Numbers:
        """The root mean square of each gradient: its size, however many elements."""
        return np.asarray(self["norm"] / np.sqrt(self.parameters.sizes))

    @cached_property
    def sensitivity(self) -> Numbers:
        """Gradient times weight: how the loss answers to a change in per cent.

        It is the same in all layers of a healthy network of rectifiers, however wide.
        """
        weight = np.where(self["weight_norm"] > 0, self["weight_norm"], 1.0)
        return np.asarray(self["norm"] * weight)

    @cached_property
    def update_ratio(self) -> Numbers:
        """Update over weight; NaN for weights that are zero."""
        weight = np.where(self["weight_norm"] > 0, self["weight_norm"], math.nan)
        return np.asarray(self["update_norm"] / weight)

    def total(self, name: str) -> float:
        """Returns a number of the step as a whole; NaN where it is not known."""
        return float(self.totals.get(name, math.nan))


def snapshots(run: Run) -> Iterator[Snapshot]:
    """Yields the recorded steps as the rules read them."""
    history = History(run.notes.get("model"))
    for record in run.records():
        yield history.append(record)
