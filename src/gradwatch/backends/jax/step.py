"""A watched training step in JAX.

What happens in which order, all in the thread that trains:

1. `rebuild` makes a new train function of Keras. Its first call *traces* the step: our
   Python runs once, inside `model.train_step` and `optimizer.stateless_apply`.
2. The step is a pure function. What it sends is returned beside its logs (`JaxStream`),
   and taken off again before Keras sees them. Nothing is added to any state.
3. How much is recorded comes with the batch (`DetailedBatch`). The native sweep gets it
   when it is called, so that one compiled step serves all. Without it the detail is
   part of the type of the batch: JAX compiles one step per detail, and that of steps
   which are not recorded is the unwatched one.
4. JAX returns before a step is done. Only `take` waits for it.

A custom loop (`JaxLoopStream`) may be compiled by the user's own `jax.jit`: there the
only way to the host is a call from inside the compiled step.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from numpy.typing import NDArray

from ..._keras import MAKE_FUNCTION, jax_step
from ..._shadow import Shadows
from .._common import fresh_train_function
from .._probe import BaseProbe
from .._protocol import Leaf, LoopHost, Parts, Tensor, WatchedStep
from .._streams import LoopStream, Stream, Tie
from .kernels import JaxKernels, JaxSweep
from .passes import level


class JaxWatchedStep(WatchedStep):
    """Streams numbers out of a training step of JAX."""

    STATELESS = True

    def stream(self, model: Any) -> JaxStream:
        """Returns the way out of the steps of `fit`."""
        compiled = model.jit_compile and not model.run_eagerly
        return JaxStream(JaxKernels(), JaxSweep.or_none(), compiled=compiled)

    def loop_stream(self, host: LoopHost) -> JaxLoopStream:
        """Returns the way out of a custom loop, eager or compiled."""
        return JaxLoopStream(JaxKernels(), JaxSweep.or_none(), host)

    def probe(self) -> JaxProbe:
        """Returns a recorder of activations and their gradients."""
        return JaxProbe()

    def is_tensor(self, value: object) -> bool:
        """Returns whether this is a dense tensor."""
        return isinstance(value, jax.Array)

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
    jax.tree_util.register_dataclass,
    data_fields=["data", "wanted"],
    meta_fields=["detail"],
)
@dataclass(frozen=True)
class DetailedBatch:
    """A batch, and how much of its step is recorded.

    Attributes:
        data: The batch.
        wanted: The detail as an argument of the compiled step; None if it is not.
        detail: The detail as a part of the type: for each JAX compiles a step of its
            own. A branch inside one step would keep XLA from updating weights in place.
    """

    data: Any
    wanted: Any
    detail: int | None


@functools.cache
def _detail(number: int) -> Any:
    """Returns a detail as an argument of a compiled step.

    An array that is there already: to make one of a number takes as long as a third of
    all that a quiet step costs.
    """
    return jnp.asarray(number, jnp.int32)


class _Arrays(Stream):
    """Common ground of all steps of JAX: arrays never change."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._level: Any = None
        """The trace of the step; None outside of it."""

    @contextlib.contextmanager
    def ordered(self, sample: Any) -> Iterator[Tie | None]:
        """Makes scalars depend on the sample: XLA knows no other order.

        The seal of a sample is always 0, but XLA cannot know that.
        """
        if self.native is None:
            yield None
            return
        always = jax.lax.bitcast_convert_type(sample[-4:], jnp.int32) == 0
        yield lambda scalar: jnp.where(always, scalar, jnp.zeros_like(scalar))

    def branch(self, due: Any, make: Callable[[], Any]) -> Any:
        """Branches on a tensor; a bool is True."""
        if not isinstance(due, jax.Array):
            return make()
        nothing = jax.tree.map(
            lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(make)
        )
        return jax.lax.cond(due, make, lambda: nothing)

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, if the step is due; else it is not computed."""
        if level() != self._level:
            return  # inside a loop or a branch of the user's own: cannot get out
        if due is not False:
            gated = self.native is not None
            self._sent[key] = measure() if gated else self.branch(due, measure)

    def array(self, tensor: Tensor) -> Any:
        """Returns the tensor: who reads it waits for it, and so not the trainer."""
        return tensor


class JaxStream(_Arrays):
    """Returns what a step of `fit` sends as further results of it.

    Args:
        compiled: Whether Keras compiles the step.
    """

    def __init__(self, *args: Any, compiled: bool) -> None:
        super().__init__(*args)
        self._gated = compiled and self.native is not None
        self._wanted: Any = 0
        """Detail of the step that is being traced."""

    @property
    def wanted(self) -> Any:
        """Detail of the step: a tensor where it is an argument of it."""
        return self._wanted

    def step(self, train_step: Callable[..., Any], state: Any, batch: Any) -> Any:
        """Traces one training step, which returns what it sends beside its logs."""
        if not isinstance(batch, DetailedBatch):  # a train function of the user's own
            return train_step(state, batch)
        self._wanted = batch.wanted if batch.detail is None else batch.detail
        self._level, self._sent = level(), {}
        try:
            logs, state = train_step(state, batch.data)
            return (logs, self._sent), state
        finally:
            self._wanted, self._level, self._sent = 0, None, {}

    def run(self, step: Callable[..., Any], state: Any, data: Any) -> Any:
        """Runs a compiled step on a batch, and keeps what it sent; on the host."""
        detail = 0 if self.is_quiet else self.detail
        if self._gated:
            batch = DetailedBatch(data, _detail(detail), None)
        else:
            batch = DetailedBatch(data, None, detail)
        (logs, sent), state = step(state, batch)
        self.finish(sent if detail else {})
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

    @property
    def wanted(self) -> Any:
        """Detail of the step: a number if it is eager, else a tensor."""
        return super().wanted if self._asked is None else self._asked[1]

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
