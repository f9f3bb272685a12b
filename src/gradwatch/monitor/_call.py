"""One call of an optimizer, and the numbers of the optimizer itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from .._keras import (
    accumulated_gradient,
    clip_gradients,
    inner_optimizer,
    learning_rate_of,
    step_count,
)
from ..backends import BaseKernels, Parts, Sweep, Tensor, Tie, current


@dataclass
class Call:
    """One call of an optimizer, whichever of its methods it came through.

    Attributes:
        grads: The gradients, as they are given to the optimizer.
        variables: The variables that it updates.
        values: Their values before the update.
        run: Makes the update, and returns what the method returns. Gets a function for
            the scalars that the update depends on, or None.
        after: Returns the values after the update, from what `run` returned.
        state: Inside, the variables of the optimizer hold their values.
        advanced: Returns the optimizer's count, from what `run` returned.
    """

    grads: list[Tensor]
    variables: list[Any]
    values: list[Tensor]
    run: Callable[[Tie | None], Any]
    after: Callable[[Any], Sequence[Tensor]]
    state: Callable[[], contextlib.AbstractContextManager[None]]
    advanced: Callable[[Any], Tensor]

    def readable(self, index: int, kernels: BaseKernels) -> Tensor:
        """Returns a gradient with all its rows, for reading only."""
        grad = self.grads[index]
        if current().watching.is_tensor(grad):
            # As it was given: inside a branch, anything made of it hides what it is.
            [grad] = kernels.apart([grad])
        return kernels.dense(grad, tuple(self.values[index].shape))

    def go_on_with(
        self, passed: Sequence[Tensor], read: Sequence[Tensor], indices: Sequence[int]
    ) -> None:
        """Gives the optimizer equal gradients, where it was itself that was read."""
        for new, old, index in zip(passed, read, indices, strict=True):
            if old is self.grads[index]:
                self.grads[index] = new


@contextlib.contextmanager
def holding(variables: Sequence[Any], values: Sequence[Tensor]) -> Iterator[None]:
    """Gives variables these values inside the `with`."""
    with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
        yield


def scale_of(optimizer: Any) -> Tensor | None:
    """Returns the factor of the loss that was differentiated; None without one."""
    dynamic = getattr(optimizer, "dynamic_scale", None)
    if dynamic is not None:
        return ops.copy(dynamic.value)
    factor = optimizer.loss_scale_factor
    return None if factor is None else ops.convert_to_tensor(factor, "float32")


def totals_of(optimizer: Any, scale: Tensor | None) -> dict[str, Tensor]:
    """Returns the numbers of the step that are known before it is made."""
    inner = inner_optimizer(optimizer)
    steps = inner.gradient_accumulation_steps
    iterations = ops.copy(step_count(inner).value)
    rate: Any = float("nan")
    schedule = keras.optimizers.schedules.LearningRateSchedule
    # A function of the user's own may do more than answer: do not ask it twice.
    if isinstance(learning_rate_of(inner), schedule | keras.Variable):
        rate = inner.learning_rate
        rate = ops.copy(getattr(rate, "value", rate))
    updates = (iterations + 1) % steps == 0 if steps else 1.0
    return {
        "scale": 1.0 if scale is None else scale,
        "learning_rate": rate,
        "iterations": iterations,
        "updates": updates,
    }


def applied(
    optimizer: Any,
    call: Call,
    scale: Tensor | None,
    indices: Sequence[int],
    kernels: BaseKernels,
) -> Callable[[Sweep, Any], Parts] | None:
    """Returns what measures the gradient that the optimizer's rule gets.

    None if that is the one it is given.
    """
    inner = inner_optimizer(optimizer)
    limits = ("clipnorm", "global_clipnorm", "clipvalue")
    clips = any(getattr(inner, limit, None) is not None for limit in limits)
    steps = inner.gradient_accumulation_steps
    if not steps and not clips:
        return None
    present = [i for i, grad in enumerate(call.grads) if grad is not None]
    chosen = [present.index(i) for i in indices]

    def norms(sweep: Sweep, detail: Any) -> Parts:
        grads = [call.readable(i, kernels) for i in present]
        if scale is not None:
            grads = [g / ops.cast(scale, g.dtype) for g in grads]
        if steps:
            before = [
                accumulated_gradient(inner, call.variables[i]).value for i in present
            ]
            grads = [(g + a) / steps for g, a in zip(grads, before, strict=True)]
        parts = {"accumulated": sweep.norms([grads[i] for i in chosen], detail)}
        if clips:
            clipped = clip_gradients(inner, grads)
            parts["applied"] = sweep.norms([clipped[i] for i in chosen], detail)
        return parts

    return norms
