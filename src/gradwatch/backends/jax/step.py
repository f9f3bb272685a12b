"""A watched training step in JAX.

What happens in which order, all in the thread that trains:

1. `rebuild` makes a new train function of Keras. Its first call *traces* the step: our
   Python runs once, inside `model.train_step` and `optimizer.stateless_apply`.
2. The step is a pure function. What it sends is returned beside its logs (`JaxStream`),
   and taken off again before Keras sees them. Nothing is added to any state.
3. How much is recorded is part of the type of the batch (`DetailedBatch`): JAX compiles
   one step per detail, and that of steps which are not recorded is the unwatched one.
4. JAX returns before a step is done. Only `wait` and `take` wait for it.

A custom loop (`JaxLoopStream`) may be compiled by the user's own `jax.jit`: there the
only way to the host is a call from inside the compiled step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from numpy.typing import NDArray

from ..._keras import MAKE_FUNCTION, jax_step
from ..._shadow import Shadows
from .._common import best_of, fresh_train_function
from .._probe import BaseProbe
from .._protocol import Leaf, LoopHost, Parts, Tensor, WatchedStep
from .._streams import LoopStream, Made, Read, Stream
from .kernels import JaxKernels, barrier, is_rounded_alone
from .passes import level


class JaxWatchedStep(WatchedStep):
    """Streams numbers out of a training step of JAX."""

    STATELESS = True
    kernels = JaxKernels()

    def stream(self, model: Any) -> JaxStream:
        """Returns the way out of the steps of `fit`."""
        del model
        return JaxStream(self.kernels)

    def loop_stream(self, host: LoopHost) -> JaxLoopStream:
        """Returns the way out of a custom loop, eager or compiled."""
        return JaxLoopStream(self.kernels, host)

    def probe(self) -> JaxProbe:
        """Returns a recorder of activations and their gradients."""
        return JaxProbe()

    def is_tensor(self, value: object) -> bool:
        """Returns whether this is a dense tensor."""
        return isinstance(value, jax.Array)

    def seconds(self, function: Callable[..., Any], tensors: Sequence[Tensor]) -> float:
        """Returns the seconds that a function of these tensors takes, compiled."""
        compiled = jax.jit(function)
        return best_of(lambda: jax.block_until_ready(compiled(list(tensors))))  # type: ignore[no-untyped-call]

    def rebuild(
        self,
        model: Any,
        stream: JaxStream,
        before: Callable[[int], Any],
        after: Callable[..., Any],
        keep: Callable[[Any], None] | None = None,
    ) -> Any:
        """Returns a new train function that reports each execution."""

        def make_function(
            original: Callable[..., Any],
            step: Callable[..., Any],
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            def step_and_keep(state: Any, data: Any) -> Any:
                if keep is not None:
                    keep(data)
                return stream.run(step, state, data)

            return original(step_and_keep, *args, **kwargs)

        with Shadows() as shadows:
            shadows.put(model, MAKE_FUNCTION, make_function)
            inner = fresh_train_function(model)

        def train_function(state: Any, iterator: Any) -> Any:
            before(model.steps_per_execution)
            logs, state = inner(state, iterator)
            return after(logs), state

        return train_function

    def one_step(self, model: Any, train_function: Any, batch: Any) -> Any:
        """Runs one training step on a batch, and returns its logs."""
        return jax_step(model, train_function, batch)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["detail"]
)
@dataclass(frozen=True)
class DetailedBatch:
    """A batch, and how much of its step is recorded.

    The latter is no array but part of the type: for each detail JAX compiles a step of
    its own. A branch inside one step would keep XLA from updating weights in place.
    """

    data: Any
    detail: int


class _Arrays(Stream):
    """Common ground of all steps of JAX: arrays never change."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._level: Any = None
        """The trace of the step; None outside of it."""

    def snapshot(self, key: str, due: Any, values: Sequence[Tensor]) -> list[Tensor]:
        """Returns the values: they stay as they are."""
        del key, due
        return list(values)

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, if the step is due; else it is not computed."""
        if level() != self._level:
            return  # inside a loop or a branch of the user's own: cannot get out
        if not isinstance(due, jax.Array):
            super().emit(key, due, measure)
            return
        shapes = jax.eval_shape(measure)
        self._sent[key] = jax.lax.cond(
            due,
            measure,
            lambda: {n: jnp.zeros(s.shape, s.dtype) for n, s in shapes.items()},
        )

    def read_early(
        self, due: Any, tensor: Tensor, read: Read
    ) -> tuple[Tensor, Made | None]:
        """Reads a tensor, and lets its users wait for that.

        Otherwise XLA would keep all gradients of the model until the last of them is
        read, in memory that is fresh at every step.
        """
        if due is not True:  # a branch, which would have to keep it as well
            return tensor, None
        made = read(tensor)
        if is_rounded_alone(tensor):
            tensor, made = barrier((tensor, made))
        return tensor, lambda: made

    def array(self, tensor: Tensor) -> NDArray[Any]:
        """Returns the value of a tensor, when it is there."""
        return np.asarray(tensor)

    def wait(self, logs: Any) -> None:
        """Returns when the steps that gave these logs are done."""
        jax.block_until_ready(logs)  # type: ignore[no-untyped-call]


class JaxStream(_Arrays):
    """Returns what a step of `fit` sends as further results of it."""

    _traced = 0
    """Detail of the step that is being traced."""

    def due(self, detail: int) -> bool:
        """Returns whether this much is recorded; known while the step is traced."""
        return self._traced >= detail

    def step(self, train_step: Callable[..., Any], state: Any, batch: Any) -> Any:
        """Traces one training step, which returns what it sends beside its logs."""
        if not isinstance(batch, DetailedBatch):  # a train function of the user's own
            return train_step(state, batch)
        self._traced, self._level, self._sent = batch.detail, level(), {}
        try:
            logs, state = train_step(state, batch.data)
            return (logs, self._sent), state
        finally:
            self._traced, self._level, self._sent = 0, None, {}

    def run(self, step: Callable[..., Any], state: Any, data: Any) -> Any:
        """Runs a compiled step on a batch, and keeps what it sent; on the host."""
        (logs, sent), state = step(state, DetailedBatch(data, self.detail))
        self.finish(sent)
        return logs, state


class JaxLoopStream(LoopStream, _Arrays):
    """Carries numbers out of a custom loop.

    Inside the user's `jax.jit` our Python runs only when it is traced. So the compiled
    step calls the host each time it runs (`io_callback`, which it waits for), with the
    optimizer's count as the number of the step, to learn whether it is due. It branches
    on the answer, and sends what it measured in a second call, for which it does not
    wait. JAX makes these calls in threads of its own.
    """

    _asked: Any = None
    """Number and detail of the compiled step that is being traced, as tensors."""

    def begin(self, iterations: Tensor) -> None:
        """Asks the host; inside a compiled step, each time it runs."""
        if level() == self._level:
            return  # a second optimizer of the same step
        self._level, self._sent = level(), {}
        self._asked = None
        if isinstance(iterations, jax.core.Tracer):
            shape = jax.ShapeDtypeStruct((), jnp.int32)  # type: ignore[no-untyped-call]
            self._asked = iterations, io_callback(self._answer, shape, iterations)

    def due(self, detail: int) -> Any:
        """Returns whether this much is recorded: a bool if eager, else a tensor."""
        return super().due(detail) if self._asked is None else self._asked[1] >= detail

    def applied(self) -> None:
        """Ends the step."""
        self._level = None
        if self._asked is None:
            super().applied()
            return
        number, detail = self._asked
        sent, self._sent, self._asked = self._sent, {}, None
        if sent:
            jax.lax.cond(
                detail > 0,
                functools.partial(
                    jax.debug.callback, self._arrived, number, detail, sent
                ),
                lambda: None,
            )

    def _answer(self, iterations: Any) -> NDArray[np.int32]:
        detail = self._host.ask(int(iterations)) if self._open else 0
        self._ran += self._open
        return np.asarray(detail, np.int32)

    def _arrived(self, number: Any, detail: Any, sent: dict[str, Parts]) -> None:
        if self._open:
            received = {key: self.arrays(parts) for key, parts in sent.items()}
            self._host.receive(int(number), received, int(detail))

    def close(self) -> None:
        """Waits for what is on its way; then nothing is due any more."""
        jax.effects_barrier()  # type: ignore[no-untyped-call]
        super().close()


class JaxProbe(BaseProbe):
    """Notes activations and their gradients while a step is traced, or runs."""

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """Returns an identity whose derivative notes what passes."""
        del keep

        @jax.custom_vjp
        def probe(x: Tensor) -> Tensor:
            return x

        def forward(x: Tensor) -> tuple[Tensor, None]:
            self.note_value(leaf, x)
            return x, None

        def backward(_: None, dy: Tensor) -> tuple[Tensor]:
            self.note_gradient(leaf, dy)
            return (dy,)

        probe.defvjp(forward, backward)
        return probe(tensor)

    def is_dense(self, tensor: object) -> bool:
        """Returns whether it is no sparse array, which is another class."""
        return isinstance(tensor, jax.Array)

    def scope(self) -> Any:
        """Returns the trace in which tensors live."""
        return level()
