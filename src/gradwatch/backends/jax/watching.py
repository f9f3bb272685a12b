"""What watching a training needs of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ..._keras import MAKE_FUNCTION, jax_step
from ..._shadow import Shadows
from .._common import best_of, fresh_train_function
from .._plain import KEEPS_TRACES, LISTENS, as_written, tracing, value, written
from .._protocol import Tensor
from . import kernels
from .loop import LoopStream
from .probe import Probe
from .stream import Stream

__all__ = [
    "KEEPS_TRACES",
    "LISTENS",
    "STATELESS",
    "LoopStream",
    "Probe",
    "Stream",
    "as_written",
    "is_tensor",
    "kernels",
    "one_step",
    "rebuild",
    "seconds",
    "tracing",
    "value",
    "written",
]

STATELESS = True
"""Whether training goes through `stateless_apply`."""


def is_tensor(value: object) -> bool:
    """Whether this is a dense tensor."""
    return isinstance(value, jax.Array)


def seconds(function: Callable[..., Any], tensors: Sequence[Tensor]) -> float:
    """Returns how long a function of these tensors takes, compiled."""
    compiled = jax.jit(function)
    return best_of(lambda: jax.block_until_ready(compiled(list(tensors))))  # type: ignore[no-untyped-call]


def rebuild(
    model: Any,
    stream: Stream,
    before: Callable[[int], Any],
    after: Callable[..., Any],
    keep: Callable[[Any], None] | None = None,
) -> Any:
    """As in TensorFlow."""

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


def one_step(model: Any, train_function: Any, batch: Any) -> Any:
    """Makes one training step on a batch, and returns its logs."""
    return jax_step(model, train_function, batch)
