"""Numbers on their way from inside a running training step to the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from .._protocol import Parts, Taken, Tensor
from . import kernels
from .apart import is_apart


class Box:
    """What steps send under one key: a line of numbers for each slot.

    One variable, because every read of one by the host takes as long as a hundred
    numbers. The first number of a line counts how often it was written.
    """

    _ROUND = 2**20  # a float32 counts to 2 ** 24

    def __init__(self, slots: int, parts: Parts) -> None:
        self.shapes = {name: tuple(part.shape) for name, part in parts.items()}
        self._sizes = [math.prod(shape) for shape in self.shapes.values()]
        self._lines = variable(np.zeros((slots, 1 + sum(self._sizes)), np.float32))
        self._seen = np.zeros(slots, np.float32)

    def fits(self, parts: Parts) -> bool:
        """Whether these parts can be put here."""
        return self.shapes == {n: tuple(part.shape) for n, part in parts.items()}

    def put(self, slot: Any, parts: Parts) -> None:
        """Writes a line, inside the step."""
        count = tf.gather(self._lines, slot)[0]
        flat = [tf.reshape(parts[name], (-1,)) for name in self.shapes]
        line = tf.concat([tf.reshape((count + 1) % self._ROUND, (1,)), *flat], 0)
        self._lines.scatter_update(tf.IndexedSlices(line[None], tf.reshape(slot, (1,))))

    def read(self) -> NDArray[np.float32]:
        """Returns all lines as they are now."""
        # Not `.numpy()`, which tells tapes and distribution strategies of it.
        lines = tf.raw_ops.ReadVariableOp(resource=self._lines.handle, dtype=tf.float32)
        return _array(lines)

    def fresh(self) -> dict[int, Parts]:
        """Returns the lines that were written since this was asked last, by slot."""
        lines = self.read()
        counts = lines[:, 0].copy()
        slots = np.flatnonzero(counts != self._seen)
        self._seen = counts
        return {int(slot): self.parts(lines[slot]) for slot in slots}

    def is_new(self, slot: int, line: NDArray[np.float32]) -> bool:
        """Whether a line was written since this was asked of its slot."""
        before, self._seen[slot] = self._seen[slot], line[0]
        return bool(before != line[0])

    def parts(self, line: NDArray[np.float32]) -> Parts:
        """Takes a line apart."""
        pieces = np.split(line[1:], np.cumsum(self._sizes)[:-1])
        return {
            name: piece.reshape(shape)
            for piece, (name, shape) in zip(pieces, self.shapes.items(), strict=True)
        }


class Stream:
    """Carries numbers out of the step in variables that nobody tracks.

    Variables live through loops, branches and XLA, so that several steps in one
    execution are no different from one. They belong to neither model nor optimizer:
    nothing of them is saved, counted or reset.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._details = variable(np.zeros(slots, np.int32))
        self._slot = variable(np.zeros((), np.int32))
        self._boxes: dict[str, Box] = {}
        self._armed = [0] * slots
        self.fixed: bool | None = None
        """Whether the step being traced is recorded, where that is known already."""
        self._left: dict[str, Parts] = {}
        self._eager: list[dict[str, Parts]] = []

    # inside the step ------------------------------------------------------------------

    def begin(self, iterations: Tensor) -> None:
        """An optimizer is about to make this step."""
        del iterations  # a stream of `fit` is told by the host

    def due(self, detail: int) -> Any:
        """Whether this much is recorded: a tensor, which the step branches on."""
        if self.fixed is not None:
            return self.fixed and self._armed[0] >= detail
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

    def early(
        self, due: Any, tensor: Tensor, read: Callable[[Tensor], Sequence[Tensor]]
    ) -> tuple[Tensor, Callable[[], list[Tensor]] | None]:
        """Reads a tensor if the step is due, and returns it for those who come next.

        They wait until it is read, so that it is in the cache once for all of them, and
        free again as early as in a step that nobody watches.
        """
        if tf.executing_eagerly():
            made = list(read(tensor)) if due else []
            return tensor, lambda: made
        if self.fixed:
            found = list(read(tensor))
            if is_apart(tensor):
                tensor = kernels.after(tensor, found[0])
            return tensor, lambda: found
        if kernels.in_xla():  # a branch, which would have to keep it as well
            return tensor, None
        shapes: list[Any] = []

        def now() -> list[Tensor]:
            made = list(read(tensor))
            shapes[:] = [part.shape for part in made]
            return made

        parts = tf.cond(due, now, lambda: [tf.zeros((0,)) for _ in shapes])
        with tf.control_dependencies(parts):
            tensor = tf.identity(tensor)
        return tensor, lambda: [
            tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)
        ]

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, if the step is due; else it is not called."""
        if tf.executing_eagerly():
            if due:
                found = {name: _array(part) for name, part in measure().items()}
                self._sent()[key] = found
            return
        if self.fixed is not None:
            if due:
                self._left[key] = measure()
            return

        def write() -> Tensor:
            parts = measure()
            box = self._boxes.get(key)
            if box is None or not box.fits(parts):
                box = self._boxes[key] = Box(self.slots, parts)
            box.put(0 if self.slots == 1 else self._slot, parts)
            return tf.constant(0)

        tf.cond(due, write, lambda: tf.constant(0))

    def step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        """Runs one training step; the next one writes to the next slot."""
        if tf.executing_eagerly():
            self._sent()
            result = train_step(*args)
            self._eager.append({})
            return result
        self._left = {}
        result = train_step(*args)
        if self.fixed is not None:
            left, self._left = self._left, {}
            return result, left
        if self.slots > 1:
            self._slot.assign_add(1)
        return result

    def _sent(self) -> dict[str, Parts]:
        if not self._eager:
            self._eager.append({})
        return self._eager[-1]

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

    @property
    def is_armed(self) -> bool:
        """Whether any of the next steps is recorded."""
        return any(self._armed)

    def keep(self, result: tuple[Any, dict[str, Parts]]) -> Any:
        """Takes what left a step off its result."""
        logs, self._left = result
        return logs

    def take(self) -> Taken:
        """Returns what the steps since `arm` sent, and how many there were."""
        if self.fixed is not None:
            found = {
                key: {name: _array(part) for name, part in parts.items()}
                for key, parts in self._left.items()
            }
            self._left = {}
            return 1, {0: found} if found else {}
        if self._eager:
            return len(self._eager) - 1, dict(enumerate(self._eager[:-1]))
        ran = 1 if self.slots == 1 else int(self._slot)
        if not any(self._armed):
            return ran, {}
        sent: dict[int, dict[str, Parts]] = {}
        for key, box in self._boxes.items():
            for slot, parts in box.fresh().items():
                sent.setdefault(slot, {})[key] = parts
        return ran, sent

    def wait(self, logs: Any) -> None:
        """Returns when the steps that gave these logs are done."""
        del logs  # TensorFlow returns when the step is done


def variable(initial: NDArray[Any]) -> Any:
    """Makes a variable that the function being traced is not told of.

    A function that makes variables is traced a second time, and must not make any then.
    `tf.Variable(…)` asks whoever wants to know of new variables; `type.__call__` makes
    it without asking.
    """
    with tf.init_scope():
        return type.__call__(ResourceVariable, initial_value=initial, trainable=False)


def _array(part: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = part.numpy()
    return array
