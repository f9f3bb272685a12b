"""The way from inside a running training step to the host."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from numpy.typing import NDArray

from .._common import best_of
from .._protocol import Leaf, Parts, Taken, Tensor
from . import kernels
from .apart import is_apart
from .recorder import _level as level

STATELESS = True
"""Whether training goes through `stateless_apply`."""
KEEPS_TRACES = False
"""Whether a step trains what was trainable when it was traced, whatever is now."""
LISTENS = False
"""Whether an optimizer writes each variable by itself."""


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


class LoopStream(Stream):
    """For a loop of the user's own, in whose compiled step there is no way but a call.

    The step asks the host whether it is due, and calls it with what it has to send.

    Args:
        ask: Gives the detail of a step, by its number.
        receive: Gets what a step sent, its number and its detail.
        start: The number of the first step; what is compiled counts for itself.
    """

    def __init__(
        self,
        ask: Callable[[int], int],
        receive: Callable[[int, dict[str, Parts], int], None],
        start: int,
        foreseen: bool = True,
    ) -> None:
        super().__init__(1)
        del start, foreseen  # each step asks for itself
        self.ran = 0
        self._ask, self._receive = ask, receive
        self._open = True
        self._step: Any = 0

    def begin(self, iterations: Tensor) -> None:
        """Asks the host; inside a compiled step, each time it runs."""
        if level() == self._level and self._sent:
            return  # a second optimizer of the same step
        self._level, self._sent, self._step = level(), {}, iterations
        if isinstance(iterations, jax.core.Tracer):
            shape = jax.ShapeDtypeStruct((), jnp.int32)  # type: ignore[no-untyped-call]
            self._detail = io_callback(self._asked, shape, iterations)
        else:
            self._detail = int(self._asked(iterations))

    def _asked(self, iterations: Any) -> NDArray[np.int32]:
        detail = self._ask(int(iterations)) if self._open else 0
        self.ran += self._open
        return np.asarray(detail, np.int32)

    def applied(self) -> None:
        """The step is over."""
        sent, self._sent = self._sent, {}
        if not sent:
            return
        if isinstance(self._detail, jax.core.Tracer):
            jax.lax.cond(
                self._detail > 0,
                functools.partial(
                    jax.debug.callback, self._arrived, self._step, self._detail, sent
                ),
                lambda: None,
            )
        elif self._detail:
            self._arrived(self._step, self._detail, sent)

    def _arrived(self, step: Any, detail: Any, sent: dict[str, Parts]) -> None:
        if self._open:
            found = {
                key: {name: np.asarray(part) for name, part in parts.items()}
                for key, parts in sent.items()
            }
            self._receive(int(step), found, int(detail))

    def close(self) -> None:
        """Waits for what is on its way; then nothing is due any more."""
        jax.effects_barrier()  # type: ignore[no-untyped-call]
        self._open = False


def value(part: Tensor) -> Tensor:
    """Returns a value that `snapshot` kept."""
    return part


def tracing() -> bool:
    """Whether what runs now may be traced again before it counts: never here."""
    return False


def is_tensor(value: object) -> bool:
    """Whether this is a dense tensor."""
    return isinstance(value, jax.Array)


def seconds(function: Callable[..., Any], tensors: Sequence[Tensor]) -> float:
    """Returns how long a function of these tensors takes, compiled."""
    compiled = jax.jit(function)
    return best_of(lambda: jax.block_until_ready(compiled(list(tensors))))  # type: ignore[no-untyped-call]


def written(train_function: Any, variables: Sequence[Any]) -> list[bool] | None:
    """Keras asks anew at each `fit` what is to be trained: nothing is kept."""
    del train_function, variables
    return None


def rebuild(
    model: Any,
    stream: Stream,
    before: Callable[[int], Any],
    after: Callable[..., Any],
) -> Any:
    """Returns a new train function that says before and after each execution."""
    make = model._make_function

    def make_function(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        def step_and_keep(state: Any, data: Any) -> Any:
            return stream.run(step, state, data)

        return make(step_and_keep, *args, **kwargs)

    model.__dict__["_make_function"] = make_function
    try:
        model.make_train_function(force=True)
    finally:
        del model.__dict__["_make_function"]
    inner = model.train_function

    def train_function(state: Any, iterator: Any) -> Any:
        before(model.steps_per_execution)
        logs, state = inner(state, iterator)
        return after(logs), state

    return train_function


def as_written(function: Callable[..., Any]) -> Any:
    """Nothing rewrites functions here."""
    return function


class Probe:
    """Notes activations and their gradients while a step is traced, or runs."""

    def __init__(self) -> None:
        self._values: dict[Leaf, tuple[Any, Tensor]] = {}
        self._gradients: dict[Leaf, tuple[Any, Tensor]] = {}

    def take(self) -> tuple[dict[Leaf, Tensor], dict[Leaf, Tensor], list[Leaf]]:
        """Returns values and gradients that can be used here, and who has none."""
        here = level()
        values, gradients = (
            {leaf: t for leaf, (place, t) in noted.items() if place == here}
            for noted in (self._values, self._gradients)
        )
        hidden = [leaf for leaf in self._values if leaf not in values]
        self._values, self._gradients = {}, {}
        return values, gradients, hidden

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """An identity whose derivative notes what passes."""
        del keep

        @jax.custom_vjp
        def probe(x: Tensor) -> Tensor:
            return x

        def forward(x: Tensor) -> tuple[Tensor, None]:
            self._values[leaf] = (level(), x)
            return x, None

        def backward(_: None, dy: Tensor) -> tuple[Tensor]:
            self._gradients[leaf] = (level(), dy)
            return (dy,)

        probe.defvjp(forward, backward)
        return probe(tensor)

    def can_leave(self, tensor: Tensor) -> bool:
        """Known when what was noted is taken."""
        del tensor
        return True

    def is_dense(self, tensor: object) -> bool:
        """Sparse arrays of JAX are another class."""
        return isinstance(tensor, jax.Array)

    def place(self, address: str) -> Any:
        """Nobody asks."""
        del address
        return contextlib.nullcontext()

    def listening(self) -> Any:
        """Nothing to listen to."""
        return contextlib.nullcontext()
