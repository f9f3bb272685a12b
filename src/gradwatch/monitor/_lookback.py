"""The last batches of a training, and the weights from before them."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from ..backends import current
from ..engine import array_of

SHARE = 0.005
"""Copying the weights may take so much of the time of the training."""
FEWEST, MOST = 8, 1000
"""Between two copies of the weights there are at least, and at most, so many steps."""
SEEN, TIMES = 3, 16
"""So many times are taken, at least and at most, to learn how long a step takes."""
BYTES = 256 * 2**20
"""About so much of batches is held between two copies."""


@dataclass
class Stretch:
    """Some steps in a row: what the variables were before them, and their batches."""

    start: int
    values: dict[int, NDArray[Any]]
    """By the identity of the variable."""
    whole: bool
    """Whether the optimizers had all their variables; some make them at their first."""
    batches: list[Any] = field(default_factory=list)
    chances: list[list[NDArray[Any]]] = field(default_factory=list)
    """The random state of the framework before each of them, where it has one."""
    rates: dict[int, dict[int, NDArray[Any]]] = field(default_factory=dict)
    """The learning rates when an epoch began, by the place of its first batch."""
    bytes: int = 0


class Lookback:
    """Remembers enough of a training to make its latest steps once more.

    A step pays for one reference to its batch. The weights are copied every so many
    steps, so rarely that it takes half a per cent of the time; whatever happened since
    is found by making those steps again.

    Args:
        model: The model that trains.
        optimizers: Those that train it.
    """

    def __init__(self, model: Any, optimizers: Sequence[Any]) -> None:
        self._model = model
        self._optimizers = optimizers
        self._stretches: list[Stretch] = []
        self._length: int | None = None
        self._cost = 0.0
        self._times: deque[tuple[float, int]] = deque(maxlen=TIMES)

    @property
    def stretches(self) -> list[Stretch]:
        """What can be made again, the latest last."""
        return self._stretches

    @property
    def variables(self) -> list[Any]:
        """All that a step may change."""
        every = [*self._model.variables, *self._model.metrics_variables]
        every += [v for optimizer in self._optimizers for v in optimizer.variables]
        return list({id(variable): variable for variable in every}.values())

    def before(self, step: int, *, begins: bool = False) -> bool:
        """Copies the weights if it is time to; returns whether they are finite.

        Args:
            step: The next one.
            begins: Whether an epoch begins with it.
        """
        began = time.perf_counter()
        if self._stretches and not self._is_time(began):
            if begins:
                self._note_rates(self._stretches[-1])
            return True
        current().synchronise(self._model)
        variables = self.variables
        values = copied(variables)
        if not finite(values[: len(self._model.variables)]):
            return False
        # Of the one before, because news of a step may come late.
        known = {id(v): value for v, value in zip(variables, values, strict=True)}
        stretch = Stretch(step, known, self._is_whole())
        self._stretches = [*self._stretches[-1:], stretch]
        now = time.perf_counter()
        self._cost, self._length = now - began, None
        self._times.clear()
        self._times.append((now, 0))
        return True

    def keep(self, batch: Any) -> None:
        """Remembers the batch of the step that is about to be made."""
        if self._stretches:
            stretch = self._stretches[-1]
            stretch.batches.append(batch)
            stretch.chances.append(current().random_state())
            stretch.bytes += _size(batch)

    def is_sound(self) -> bool:
        """Whether all weights are finite now."""
        current().synchronise(self._model)
        return finite(copied(self._model.variables))

    def _note_rates(self, stretch: Stretch) -> None:
        """Between epochs a callback may set the learning rate; no step does that."""
        every = [v for optimizer in self._optimizers for v in optimizer.variables]
        rates = [v for v in every if v.name == "learning_rate"]
        known = {id(v): value for v, value in zip(rates, copied(rates), strict=True)}
        stretch.rates[len(stretch.batches)] = known

    def _is_time(self, now: float) -> bool:
        latest = self._stretches[-1]
        if latest.bytes >= BYTES or (not latest.whole and self._is_whole()):
            return True
        made = len(latest.batches)
        if self._length is None:
            self._times.append((now, made))
            if made >= FEWEST and len(self._times) > SEEN:
                self._length = self._pace()
        return self._length is not None and made >= self._length

    def _is_whole(self) -> bool:
        return all(optimizer.built for optimizer in self._optimizers)

    def _pace(self) -> int:
        """After how many steps the next copy is worth what the latest has cost."""
        pairs = zip(self._times, list(self._times)[1:], strict=False)
        each = [(b[0] - a[0]) / max(b[1] - a[1], 1) for a, b in pairs]
        # The median: the first steps are compiled, and the first of an epoch waits.
        usual = max(statistics.median(each), 1e-9)
        return min(max(math.ceil(self._cost / (SHARE * usual)), FEWEST), MOST)


def copied(variables: Sequence[Any]) -> list[NDArray[Any]]:
    """Returns the values of variables, in memory of their own."""
    return [_owned(array_of(variable)) for variable in variables]


def _owned(array: NDArray[Any]) -> NDArray[Any]:
    """Copies what may be the memory of the framework itself; most is a copy already."""
    return array if array.flags.owndata and array.flags.writeable else array.copy()


def finite(values: Sequence[NDArray[Any]]) -> bool:
    """Whether no number is NaN or infinite."""
    return all(_is_finite(value) for value in values if _is_float(value))


def _is_finite(value: NDArray[Any]) -> bool:
    if value.dtype in (np.float32, np.float64):
        flat = value.reshape(-1)
        with np.errstate(all="ignore"):
            # Squares hide neither NaN nor infinity: a finite sum is proof, at a third
            # of the time. One that is not may have overflowed.
            if np.isfinite(np.dot(flat, flat)):
                return True
    return bool(np.isfinite(value).all())


def _is_float(value: NDArray[Any]) -> bool:
    # bfloat16 is a kind of its own to NumPy ("V"), and has a meaning for `isfinite`.
    return value.dtype.kind in "fcV"


def _size(batch: Any) -> int:
    sizes = [getattr(leaf, "shape", ()) for leaf in keras.tree.flatten(batch)]
    return sum(4 * math.prod(int(n or 0) for n in shape) for shape in sizes)
