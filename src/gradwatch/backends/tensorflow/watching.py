"""The way from inside a running training step to the host."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from .._protocol import Leaf, Parts, Taken, Tensor
from . import kernels

STATELESS = False
"""Whether training goes through `stateless_apply`."""


class Stream:
    """Carries numbers out of the step in variables that nobody tracks.

    Variables live through loops, branches and XLA, so that several steps in one
    execution are no different from one. They belong to neither model nor optimizer:
    nothing of them is saved, counted or reset.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._details = _variable(np.zeros(slots, np.int32))
        self._slot = _variable(np.zeros((), np.int32))
        self._parts: dict[str, dict[str, tf.Variable]] = {}
        self._stamps: dict[str, tf.Variable] = {}
        self._seen: dict[str, NDArray[np.int32]] = {}
        self._armed = [0] * slots
        self._eager: list[dict[str, Parts]] = []

    # inside the step ------------------------------------------------------------------

    def begin(self, iterations: Tensor) -> None:
        """An optimizer is about to make this step."""
        del iterations  # a stream of `fit` is told by the host

    def due(self, detail: int) -> Any:
        """Whether this much is recorded: a tensor, which the step branches on."""
        if tf.executing_eagerly():
            place = max(len(self._eager) - 1, 0)
            return place < len(self._armed) and self._armed[place] >= detail
        # Not `[slot]`: XLA would compile a slice anew for every place.
        place = 0 if self.slots == 1 else tf.convert_to_tensor(self._slot)
        return tf.gather(tf.convert_to_tensor(self._details), place) >= detail

    def snapshot(self, key: str, due: Any, values: Sequence[Tensor]) -> Any:
        """Keeps the values as they are now; on a step that is not due, nothing."""
        del key
        if tf.executing_eagerly():
            return [tf.identity(value) for value in values] if due else None
        if kernels.in_xla():  # where both branches must have one shape
            return [tf.identity(value) for value in values]
        nothing = [tf.zeros((0,), value.dtype) for value in values]
        kept = tf.cond(
            due, lambda: [tf.identity(value) for value in values], lambda: nothing
        )
        return [
            lambda k=k, v=v: tf.reshape(k, v.shape)
            for k, v in zip(tf.nest.flatten(kept), values, strict=True)
        ]

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, if the step is due; else it is not called."""
        if tf.executing_eagerly():
            if due:
                found = {name: _array(part) for name, part in measure().items()}
                self._sent()[key] = found
            return

        def write() -> Tensor:
            parts = measure()
            slot = 0 if self.slots == 1 else self._slot
            for name, variable in self._variables(key, parts).items():
                variable.scatter_update(
                    tf.IndexedSlices(parts[name][None], tf.reshape(slot, (1,)))
                )
            self._stamps[key].scatter_add(
                tf.IndexedSlices(tf.ones((1,), tf.int32), tf.reshape(slot, (1,)))
            )
            return tf.constant(0)

        tf.cond(due, write, lambda: tf.constant(0))

    def step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        """Runs one training step; the next one writes to the next slot."""
        if tf.executing_eagerly():
            self._sent()
            result = train_step(*args)
            self._eager.append({})
            return result
        result = train_step(*args)
        if self.slots > 1:
            self._slot.assign_add(1)
        return result

    def _sent(self) -> dict[str, Parts]:
        if not self._eager:
            self._eager.append({})
        return self._eager[-1]

    def _variables(self, key: str, parts: Parts) -> dict[str, tf.Variable]:
        shapes = {name: tuple(part.shape) for name, part in parts.items()}
        known = self._parts.get(key, {})
        if {name: tuple(v.shape[1:]) for name, v in known.items()} != shapes:
            known = self._parts[key] = {
                name: _variable(np.zeros((self.slots, *shape), np.float32))
                for name, shape in shapes.items()
            }
            self._stamps[key] = _variable(np.zeros(self.slots, np.int32))
            self._seen[key] = np.zeros(self.slots, np.int32)
        return known

    # on the host ----------------------------------------------------------------------

    def arm(self, details: Sequence[int]) -> None:
        """Says how much of each of the next steps is recorded; 0 is nothing."""
        armed = [*details, *[0] * (self.slots - len(details))]
        self._eager = []
        if armed != self._armed:
            self._details.assign(armed)
            self._armed = armed
        if self.slots > 1:
            self._slot.assign(0)

    def take(self) -> Taken:
        """Returns what the steps since `arm` sent, and how many there were."""
        if self._eager:
            return len(self._eager) - 1, dict(enumerate(self._eager[:-1]))
        ran = 1 if self.slots == 1 else int(self._slot)
        if not any(self._armed):
            return ran, {}
        sent: dict[int, dict[str, Parts]] = {}
        for key, stamps in self._stamps.items():
            now = stamps.numpy()
            fresh = np.flatnonzero(now != self._seen[key])
            self._seen[key] = now
            if len(fresh):
                arrays = {n: v.numpy() for n, v in self._parts[key].items()}
                for slot in fresh:
                    sent.setdefault(int(slot), {})[key] = {
                        name: array[slot] for name, array in arrays.items()
                    }
        return ran, sent

    def wait(self, logs: Any) -> None:
        """Returns when the steps that gave these logs are done."""
        del logs  # TensorFlow returns when the step is done


class LoopStream(Stream):
    """For a loop of the user's own, whose compiled steps nobody tells the host of.

    The steps count themselves, read from a table ahead whether they are due, and write
    into a ring of slots. A thread empties the ring and fills the table. It works in
    eager steps, in a `tf.function`, and under XLA.

    Args:
        ask: Gives the detail of a step, by its number.
        receive: Gets what a step sent, its number and its detail.
        start: The number of the first step.
        foreseen: Whether `ask` can be asked of steps to come. If not, it is asked now
            and then, and the next step after a yes is recorded.
    """

    TABLE, RING, PAUSE = 1024, 128, 0.01

    def __init__(
        self,
        ask: Callable[[int], int],
        receive: Callable[[int, dict[str, Parts], int], None],
        start: int,
        foreseen: bool = True,
    ) -> None:
        super().__init__(self.RING)
        self._ask, self._receive, self._start = ask, receive, start
        self._foreseen = foreseen
        self._count = _variable(np.zeros((), np.int64))
        self._table = _variable(np.zeros(self.TABLE, np.int32))
        self._written = _variable(np.zeros(self.RING, np.int64))
        self._flags: list[int] = []
        self._read = 0
        self._own: int | None = None
        self._waiting = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost = 0
        """Records that were overwritten before they could be read."""

    def due(self, detail: int) -> Any:
        """Whether this much is recorded."""
        if tf.executing_eagerly():
            if self._own is None:
                self._own = self._ask(self._start + int(self._count))
            return self._own >= detail
        if self._thread is None:
            with tf.init_scope():  # out of what is being traced
                self._refill()
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()
        place = tf.convert_to_tensor(self._count) % self.TABLE
        return tf.gather(tf.convert_to_tensor(self._table), place) >= detail

    def applied(self) -> None:
        """The step is over."""
        if tf.executing_eagerly():
            sent, self._eager = (self._eager or [{}])[0], []
            detail, self._own = self._own or 0, None
            self._receive(self._start + int(self._count), sent, detail)
            self._count.assign_add(1)
            return

        def wrote() -> Tensor:
            place = tf.reshape(self._slot, (1,))
            stamp = tf.reshape(self._count + 1, (1,))
            self._written.scatter_update(tf.IndexedSlices(stamp, place))
            self._slot.assign((self._slot + 1) % self.RING)
            if not self._foreseen:
                self._table.assign(tf.zeros_like(self._table))
            return tf.constant(0)

        tf.cond(self.due(1), wrote, lambda: tf.constant(0))
        self._count.assign_add(1)

    def _follow(self) -> None:
        while not self._stop.wait(self.PAUSE):
            with contextlib.suppress(Exception):  # The interpreter may be ending.
                self._drain()

    def _refill(self) -> None:
        """Asks for the steps ahead; those behind make room."""
        if not self._foreseen:
            if not self._waiting:
                self._waiting = self._ask(self._start + int(self._count))
                if self._waiting:
                    self._table.assign(np.full(self.TABLE, self._waiting, np.int32))
            return
        ahead = int(self._count) + self.TABLE
        if len(self._flags) >= ahead:
            return
        while len(self._flags) < ahead:
            self._flags.append(self._ask(self._start + len(self._flags)))
        table = np.zeros(self.TABLE, np.int32)
        for step in range(ahead - self.TABLE, ahead):
            table[step % self.TABLE] = self._flags[step]
        self._table.assign(table)

    def _drain(self) -> None:
        with self._lock:
            self._refill()
            written = self._written.numpy()
            fresh = sorted(int(stamp) for stamp in written if stamp > self._read)
            if not fresh:
                return
            parts = {
                key: {name: v.numpy() for name, v in by_name.items()}
                for key, by_name in self._parts.items()
            }
            after = self._written.numpy()
            for stamp in fresh:
                slot = int(np.flatnonzero(written == stamp)[0])
                if after[slot] != stamp:
                    self.lost += 1  # overtaken while being read
                    continue
                sent = {
                    key: {name: array[slot] for name, array in by_name.items()}
                    for key, by_name in parts.items()
                }
                step = stamp - 1
                detail = self._flags[step] if self._foreseen else self._waiting
                self._receive(self._start + step, sent, detail)
            self._read, self._waiting = fresh[-1], 0

    @property
    def ran(self) -> int:
        """How many steps there were."""
        return int(self._count)

    def close(self) -> None:
        """Reads what is left; then nothing is due any more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._drain()
        self._table.assign(np.zeros(self.TABLE, np.int32))


def value(part: Any) -> Tensor:
    """Returns a value that `snapshot` kept."""
    return part() if callable(part) else part


def rebuild(
    model: Any,
    stream: Stream,
    before: Callable[[int], Any],
    after: Callable[..., Any],
) -> Any:
    """Returns a new train function that says before and after each execution."""
    del stream  # is reached from inside the step
    model.make_train_function(force=True)
    inner = model.train_function

    def train_function(iterator: Any) -> Any:
        before(model.steps_per_execution)
        return after(inner(iterator))

    return train_function


def as_written(function: Callable[..., Any]) -> Any:
    """Keeps AutoGraph, which rewrites the loops of users, out of our code."""
    return tf.autograph.experimental.do_not_convert(function)


class Probe:
    """Notes activations and their gradients while a step is traced, or runs."""

    def __init__(self) -> None:
        self._values: dict[Leaf, tuple[Any, Tensor]] = {}
        self._gradients: dict[Leaf, tuple[Any, Tensor]] = {}

    def take(self) -> tuple[dict[Leaf, Tensor], dict[Leaf, Tensor], list[Leaf]]:
        """Returns values and gradients that can be used here, and who has none."""
        here = _place()
        values, gradients = (
            {leaf: t for leaf, (place, t) in noted.items() if place is here}
            for noted in (self._values, self._gradients)
        )
        hidden = [leaf for leaf in self._values if leaf not in values]
        self._values, self._gradients = {}, {}
        return values, gradients, hidden

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """An identity whose derivative notes what passes."""
        del keep
        self._values[leaf] = (_place(), tensor)
        if _has_logits(tensor):
            return tensor

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def probe(x: Tensor) -> Any:
            def backward(dy: Tensor) -> Tensor:
                self._gradients[leaf] = (_place(), tf.convert_to_tensor(dy))
                return dy

            return tf.identity(x), backward

        return probe(tensor)

    def can_leave(self, tensor: Tensor) -> bool:
        """Known when what was noted is taken."""
        del tensor
        return True

    def is_dense(self, tensor: object) -> bool:
        """Ragged and sparse tensors are composites."""
        return isinstance(tensor, tf.Tensor)

    def place(self, address: str) -> Any:
        """Nobody asks."""
        del address
        return contextlib.nullcontext()


def _variable(initial: NDArray[Any]) -> Any:
    """Makes a variable that the function being traced is not told of.

    A function that makes variables is traced a second time, and must not make any then.
    `tf.Variable(…)` asks whoever wants to know of new variables; `type.__call__` makes
    it without asking.
    """
    with tf.init_scope():
        return type.__call__(ResourceVariable, initial_value=initial, trainable=False)


def _has_logits(tensor: Tensor) -> bool:
    """Whether a loss would look behind the tensor, at what went into the activation.

    The cross-entropies of Keras do, and compute another thing where they cannot. So the
    gradient at such a tensor is never computed in training: only its value is noted.
    """
    if hasattr(tensor, "_keras_logits"):
        return True
    return not tf.executing_eagerly() and tensor.op.type in ("Sigmoid", "Softmax")


def _place() -> Any:
    """The body of a loop or a branch is traced into a graph of its own."""
    return None if tf.executing_eagerly() else tf_ops.get_default_graph()


def _array(part: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = part.numpy()
    return array
