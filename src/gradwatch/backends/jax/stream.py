"""The way from inside a training step of `fit` to the host."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._protocol import Parts, Taken, Tensor
from . import kernels
from .apart import is_apart
from .recorder import _level as level


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["detail"]
)
@dataclass(frozen=True)
class Batch:
    """A batch, and how much of its step is recorded.

    The latter is no array but part of the type: for each detail JAX compiles a step of
    its own, and that of steps which are not recorded is the one that nobody watches. A
    branch inside one step would keep XLA from updating weights in place.
    """

    data: Any
    detail: int


class Stream:
    """Carries numbers out of the step as further results of it.

    The step is a pure function: what it sends is returned beside its logs, and taken
    off again before Keras sees them. Nothing is added to any state.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._armed: list[int] = []
        self._detail: Any = 0
        self._level: Any = None
        self._sent: dict[str, Parts] = {}
        self._taken: list[dict[str, Parts]] = []

    # inside the step ------------------------------------------------------------------

    def begin(self, iterations: Tensor) -> None:
        """An optimizer is about to make this step."""
        del iterations  # a stream of `fit` is told by the host

    def due(self, detail: int) -> Any:
        """Whether this much is recorded; known while the step is compiled."""
        return self._detail >= detail

    def snapshot(self, key: str, due: Any, values: Sequence[Tensor]) -> Any:
        """Arrays never change."""
        del key, due
        return list(values)

    def early(
        self, due: Any, tensor: Tensor, read: Callable[[Tensor], Any]
    ) -> tuple[Tensor, Callable[[], Any] | None]:
        """Reads a tensor, and returns it for those who come next.

        XLA is told that they wait for it. Otherwise all gradients of the model would be
        kept until the last of them is read, in memory that is fresh at every step.
        """
        if due is not True:  # a branch, which would have to keep it as well
            return tensor, None
        made = read(tensor)
        if is_apart(tensor):
            tensor, made = kernels.barrier((tensor, made))
        return tensor, lambda: made

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, if the step is due; else it is not computed."""
        if level() != self._level:
            return  # inside a loop or a branch of the user's own: cannot get out
        if not isinstance(due, jax.Array):
            if due:
                self._sent[key] = measure()
            return
        shapes = jax.eval_shape(measure)
        self._sent[key] = jax.lax.cond(
            due,
            measure,
            lambda: {n: jnp.zeros(s.shape, s.dtype) for n, s in shapes.items()},
        )

    def step(self, train_step: Callable[..., Any], state: Any, batch: Any) -> Any:
        """Runs one training step, and returns what it sent beside its logs."""
        if not isinstance(batch, Batch):  # a train function of the user's own
            return train_step(state, batch)
        self._detail, self._level, self._sent = batch.detail, level(), {}
        try:
            logs, state = train_step(state, batch.data)
            return (logs, self._sent), state
        finally:
            self._detail, self._level, self._sent = 0, None, {}

    # on the host ----------------------------------------------------------------------

    def arm(self, details: Sequence[int]) -> None:
        """Says how much of each of the next steps is recorded; 0 is nothing."""
        self._armed, self._taken = list(details), []

    def take(self) -> Taken:
        """Returns what the steps since `arm` sent, and how many there were."""
        sent = {
            place: {
                key: {name: np.asarray(part) for name, part in parts.items()}
                for key, parts in by_key.items()
            }
            for place, by_key in enumerate(self._taken)
            if self._armed[place]
        }
        return len(self._taken), sent

    def run(self, step: Callable[..., Any], state: Any, data: Any) -> Any:
        """Runs a compiled step on a batch, and keeps what it sent."""
        place = len(self._taken)  # past what was armed, if arming failed
        detail = self._armed[place] if place < len(self._armed) else 0
        (logs, sent), state = step(state, Batch(data, detail))
        self._taken.append(sent)
        return logs, state

    def wait(self, logs: Any) -> None:
        """Returns when the steps that gave these logs are done."""
        jax.block_until_ready(logs)  # type: ignore[no-untyped-call]
