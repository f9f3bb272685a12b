"""What is seen at one recorded step, and what was seen before it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...run import Record
from ...summarise import COLUMNS, is_blank
from ._chart import Chart
from ._loss import Loss

Numbers = NDArray[np.float64]

WINDOW = 32
"""So many recorded steps are remembered one by one."""
EARLY = 5
"""So many at the beginning tell how large a gradient was then."""


def median(numbers: Numbers) -> float:
    """Returns the median, the upper one of two; that of NumPy takes ten times as long.

    Example:
    >>> median(np.array([3.0, 1.0, 2.0]))
    2.0
    """
    middle = len(numbers) // 2
    return float(np.partition(numbers, middle)[middle])


class Past:
    """What earlier steps showed, as far as a rule asks for it."""

    def __init__(self) -> None:
        self.count = 0
        """Of recorded steps, this one included."""
        self.loss = Loss()
        self.means: deque[Numbers] = deque(maxlen=WINDOW)
        self.zeros: deque[Numbers] = deque(maxlen=EARLY)
        self.totals: deque[Mapping[str, float]] = deque(maxlen=WINDOW)
        self.first_step = 0
        self.reached: NDArray[np.bool_] | None = None
        """Which weights have had a gradient that was not zero."""
        self.early_norm = math.nan
        """The norm of all gradients at the beginning; NaN before that is known."""
        self.early: Numbers | None = None
        """The norm of each gradient at the beginning, the largest of some steps."""
        self._early: list[float] = []
        self._early_lines: list[Numbers] = []
        self._weights: float | None = None

    def add(self, sight: Sight) -> None:
        """Remembers a step."""
        if not self.count:
            self.first_step = sight.step
        self.count += 1
        there = sight.g != 0
        self.reached = there if self.reached is None else self.reached | there
        self.means.append(sight.mean)
        self.zeros.append(sight.zeros)
        self.totals.append(sight.totals)
        self.loss.add(sight.step, sight.totals.get("loss"))
        norm = sight.total("global_norm")
        if len(self._early) < EARLY and math.isfinite(norm):
            self._early.append(norm)
            self._early_lines.append(sight.g)
            if len(self._early) == EARLY:
                self.early_norm = max(self._early) or math.nan
                if len({len(line) for line in self._early_lines}) == 1:
                    self.early = np.max(self._early_lines, axis=0)
        if self._weights is None and "weight_norm" in sight.totals:
            self._weights = sight.totals["weight_norm"]

    def forget_lines(self) -> None:
        """Other lines come: what was remembered of each is of others."""
        self.means.clear()
        self.zeros.clear()
        self.reached = self.early = None

    @property
    def first_weight_norm(self) -> float:
        """The norm of all weights at the first recorded step."""
        return math.nan if self._weights is None else self._weights

    def last(self, name: str, count: int) -> Numbers:
        """Returns the newest totals of a name, those that were measured."""
        newest = list(self.totals)[-count:] if count < WINDOW else self.totals
        return np.array([t[name] for t in newest if name in t], np.float64)

    def updates(self, name: str) -> Numbers:
        """Returns totals of a name at the steps that updated the weights."""
        done = [t for t in self.totals if t.get("update", 1.0) and name in t]
        return np.array([t[name] for t in done], np.float64)


class Activation(NamedTuple):
    """The columns of activations that the rules read, a line for each."""

    names: tuple[str, ...]
    mean: Numbers
    std: Numbers
    mean_abs: Numbers
    zeros: Numbers
    nonfinite: Numbers


class Sight:
    """One recorded step: columns of the weights, as vectors of float64.

    Args:
        record: The step.
        chart: Of its layout.
        past: What came before; this step is added to it.
    """

    def __init__(self, record: Record, chart: Chart, past: Past) -> None:
        self.step = record.step
        self.chart = chart
        self.past = past
        self.totals = record.totals
        self.profiles: Any = None
        """How gradients change along depth, once a rule has asked."""
        rows = np.where(is_blank(record.rows), math.nan, record.rows)
        self._rows = rows
        lines = rows[chart.weights]
        self.g: Numbers = lines[:, COLUMNS.index("norm")]
        """The norm of each gradient."""
        self.mean: Numbers = lines[:, COLUMNS.index("mean")]
        self.mean_abs: Numbers = lines[:, COLUMNS.index("mean_abs")]
        self.zeros: Numbers = lines[:, COLUMNS.index("zeros")]
        self.w: Numbers = lines[:, COLUMNS.index("weight_norm")]
        """The norm of each weight before the update."""
        self.u: Numbers = lines[:, COLUMNS.index("update_norm")]
        """The norm of each update."""
        self.nonfinite: Numbers = _nonfinite(lines)
        past.add(self)

    def total(self, name: str) -> float:
        """Returns what is said of the step as a whole; NaN where it is not known."""
        return float(self.totals.get(name, math.nan))

    @property
    def updates(self) -> bool:
        """Whether this step changed the weights."""
        return bool(self.totals.get("update", 1.0))

    @property
    def skipped(self) -> bool:
        """Whether loss scaling skipped it."""
        return bool(self.totals.get("skipped", 0.0))

    @cached_property
    def rms(self) -> Numbers:
        """The root mean square of each gradient: its size, however many numbers."""
        found: Numbers = self.g / np.sqrt(np.maximum(self.chart.sizes, 1.0))
        return found

    @cached_property
    def pull(self) -> Numbers:
        """Gradient times weight: how the loss answers to a change in per cent.

        It is the same in all layers of a healthy network of rectifiers, however wide.
        """
        with np.errstate(invalid="ignore"):
            found: Numbers = np.where(self.w > 0, self.g * self.w, self.g)
        return found

    @cached_property
    def ratio(self) -> Numbers:
        """Update over weight; NaN for weights that are zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Numbers = np.where(self.w > 0, self.u / self.w, math.nan)
        return found

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Which weights have, or have had, a gradient that was not zero."""
        found = self.past.reached
        return np.zeros(len(self.g), bool) if found is None else found

    @cached_property
    def values(self) -> Activation:
        """The activations themselves."""
        return self._activations(self.chart.values)

    @cached_property
    def flows(self) -> Activation:
        """The gradients of the activations."""
        return self._activations(self.chart.flows)

    def _activations(self, lines: NDArray[np.int64]) -> Activation:
        rows = self._rows[lines]
        names = tuple(self.chart.layout.names[line] for line in lines)
        columns = ("mean", "std", "mean_abs", "zeros")
        mean, std, size, zeros = (rows[:, COLUMNS.index(name)] for name in columns)
        return Activation(names, mean, std, size, zeros, _nonfinite(rows))


def _nonfinite(rows: Numbers) -> Numbers:
    kinds = [COLUMNS.index(kind) for kind in ("nan", "posinf", "neginf")]
    found: Numbers = np.nan_to_num(rows[:, kinds]).sum(axis=1)
    return found
