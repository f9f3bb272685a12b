"""Replays the latest steps of a training, to find the one that broke it.

A step pays for one reference to its batch. The variables are copied now and then; what
happened since the latest copy is found by making those steps again.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from ..backends import current, fresh_train_function
from ..engine import array_of, untouched
from ..select import walk

SHARE = 0.005
"""Maximum share of the training time that copying the variables may take."""
FEWEST, MOST = 8, 1000
"""Minimum and maximum number of steps between two copies of the variables."""
SEEN, TIMES = 3, 16
"""Minimum and maximum number of times that the duration of a step is learnt from."""
BYTES = 256 * 2**20
"""About the maximum size of the batches that are held between two copies."""

Values = list[NDArray[Any]]


@dataclass
class WeightCopy:
    """The variables at one moment, and the batches of the steps that followed.

    Attributes:
        step: The first step after it.
        values: The values by the identity of their variable.
        whole: Whether the optimizers had all their variables; some make them at their
            first step.
        batches: The batches of the steps that followed.
        random_states: The random state of the framework before each of them, if any.
        rates: The learning rates when an epoch began, by the index of its first batch.
        bytes: Size of the batches.
    """

    step: int
    values: dict[int, NDArray[Any]]
    whole: bool
    batches: list[Any] = field(default_factory=list)
    random_states: list[Values] = field(default_factory=list)
    rates: dict[int, dict[int, NDArray[Any]]] = field(default_factory=dict)
    bytes: int = 0


@dataclass(frozen=True)
class Offence:
    """The step that broke a training.

    Attributes:
        step: Its number.
        batch: The batch that it was made on.
        values: The values of all variables before it.
        random_state: The random state of the framework before it.
        proved: Whether it broke again when replayed; otherwise it is the step that was
            recorded.
    """

    step: int
    batch: Any
    values: Values
    random_state: Values
    proved: bool


class ReplayBuffer:
    """Remembers enough of a training to replay its latest steps.

    The variables are copied so rarely that it takes half a per cent of the time.

    Args:
        model: The model that trains.
        optimizers: Those that train it.
    """

    def __init__(self, model: Any, optimizers: Sequence[Any]) -> None:
        self._model = model
        self._optimizers = optimizers
        self.snapshots: list[WeightCopy] = []
        """Snapshots from which steps can be replayed, the latest last."""
        self._length: int | None = None
        self._cost = 0.0
        self._times: deque[tuple[float, int]] = deque(maxlen=TIMES)

    @property
    def variables(self) -> list[Any]:
        """All that a step may change."""
        every = [*self._model.variables, *self._model.metrics_variables]
        every += [v for optimizer in self._optimizers for v in optimizer.variables]
        return list({id(variable): variable for variable in every}.values())

    def before(self, step: int, *, begins_epoch: bool = False) -> bool:
        """Copies the variables if it is time to; returns whether they are finite."""
        began = time.perf_counter()
        if self.snapshots and not self._is_time(began):
            if begins_epoch:
                self._note_rates(self.snapshots[-1])
            return True
        current().synchronise(self._model)
        variables = self.variables
        values = copied(variables)
        if not finite(values[: len(self._model.variables)]):
            return False
        by_variable = {id(v): value for v, value in zip(variables, values, strict=True)}
        snapshot = WeightCopy(step, by_variable, self._is_whole())
        # With the one before it: a record that shows a broken step may come late.
        self.snapshots = [*self.snapshots[-1:], snapshot]
        now = time.perf_counter()
        self._cost, self._length = now - began, None
        self._times.clear()
        self._times.append((now, 0))
        return True

    def keep(self, batch: Any) -> None:
        """Remembers the batch of the step that is about to be made."""
        if self.snapshots:
            snapshot = self.snapshots[-1]
            snapshot.batches.append(batch)
            snapshot.random_states.append(current().random_state())
            shapes = [getattr(leaf, "shape", ()) for leaf in keras.tree.flatten(batch)]
            sizes = [math.prod(int(n or 0) for n in shape) for shape in shapes]
            snapshot.bytes += 4 * sum(sizes)

    def is_sound(self) -> bool:
        """Returns whether all weights are finite now."""
        current().synchronise(self._model)
        return finite(copied(self._model.variables))

    def _note_rates(self, snapshot: WeightCopy) -> None:
        """Notes the learning rates: a callback may set them between two epochs."""
        every = [v for optimizer in self._optimizers for v in optimizer.variables]
        rates = [v for v in every if v.name == "learning_rate"]
        values = {id(v): value for v, value in zip(rates, copied(rates), strict=True)}
        snapshot.rates[len(snapshot.batches)] = values

    def _is_time(self, now: float) -> bool:
        latest = self.snapshots[-1]
        if latest.bytes >= BYTES or (not latest.whole and self._is_whole()):
            return True
        made = len(latest.batches)
        if self._length is None:
            self._times.append((now, made))
            if made >= FEWEST and len(self._times) > SEEN:
                self._length = self._steps_until_next()
        return self._length is not None and made >= self._length

    def _is_whole(self) -> bool:
        return all(optimizer.built for optimizer in self._optimizers)

    def _steps_until_next(self) -> int:
        """Returns after how many steps the next copy is worth what the latest cost."""
        pairs = zip(self._times, list(self._times)[1:], strict=False)
        each = [(b[0] - a[0]) / max(b[1] - a[1], 1) for a, b in pairs]
        # The median: the first steps are compiled, and the first of an epoch waits.
        usual = max(statistics.median(each), 1e-9)
        return min(max(math.ceil(self._cost / (SHARE * usual)), FEWEST), MOST)


@contextlib.contextmanager
def restoring(model: Any, variables: Sequence[Any]) -> Iterator[None]:
    """Lets variables be set to anything inside; they come back as they were."""
    current().synchronise(model)
    now = copied(variables)
    with untouched(walk(model)):
        try:
            yield
        finally:
            assign(variables, now)


def assign(variables: Sequence[Any], values: Sequence[NDArray[Any]]) -> None:
    """Sets variables."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def find_offence(
    model: Any, buffer: ReplayBuffer, recorded: int | None
) -> Offence | None:
    """Replays the steps since the latest snapshot, inside `restoring`.

    Args:
        model: The model, without its taps.
        buffer: What is remembered.
        recorded: A step that is known to be broken; None if it is only known that the
            weights now are.

    Returns:
        The first step after which a weight or the loss is not finite; or the recorded
        one, if that comes first; or None, if it is not among those remembered.
    """
    usable = [s for s in buffer.snapshots if recorded is None or s.step <= recorded]
    if not usable:
        return None
    snapshot, variables, weights = usable[-1], buffer.variables, len(model.variables)
    # A variable that the optimizer has made since began at zero.
    values = [snapshot.values.get(id(v)) for v in variables]
    for variable, value in zip(variables, values, strict=True):
        variable.assign(np.zeros_like(array_of(variable)) if value is None else value)
    function = fresh_train_function(model)
    by_id = {id(variable): variable for variable in variables}
    for index, batch in enumerate(snapshot.batches):
        step, random_state = snapshot.step + index, snapshot.random_states[index]
        for variable, rate in snapshot.rates.get(index, {}).items():
            by_id[variable].assign(rate)
        before = copied(variables)
        current().set_random_state(random_state)
        logs = current().watching.one_step(model, function, batch)
        broke = is_broken(copied(variables[:weights]), logs)
        if broke or step == recorded:
            return Offence(step, batch, before, random_state, broke)
    return None


def copied(variables: Sequence[Any]) -> Values:
    """Returns the values of variables, in memory of their own."""
    arrays = [array_of(variable) for variable in variables]
    # What is the memory of the framework itself is copied; most is a copy already.
    return [a if a.flags.owndata and a.flags.writeable else a.copy() for a in arrays]


def finite(values: Sequence[NDArray[Any]]) -> bool:
    """Returns whether no number is NaN or infinite."""
    # bfloat16 is a kind of its own to NumPy ("V"), and has a meaning for `isfinite`.
    return all(_is_finite(value) for value in values if value.dtype.kind in "fcV")


def _is_finite(value: NDArray[Any]) -> bool:
    if value.dtype in (np.float32, np.float64):
        flat = value.reshape(-1)
        with np.errstate(all="ignore"):
            # Squares hide neither NaN nor infinity: a finite sum is proof, at a third
            # of the time. One that is not may have overflowed.
            if np.isfinite(np.dot(flat, flat)):
                return True
    return bool(np.isfinite(value).all())


def is_broken(weights: Values, logs: Any) -> bool:
    """Returns whether a step has left a weight or a loss that is not finite."""
    loss = logs.get("loss", 0.0) if isinstance(logs, dict) else 0.0
    with contextlib.suppress(TypeError, ValueError):  # a loss that is no number
        if not math.isfinite(float(loss)):
            return True
    return not finite(weights)
