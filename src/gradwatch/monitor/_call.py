"""One call of an optimizer, and what can be read of the optimizer itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
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
from ..backends import Parts, Tensor, current
from ..summarise import squares


class Step:
    """One call of the optimizer, whichever of its methods it came through."""

    def __init__(
        self,
        grads: list[Tensor],
        variables: list[Any],
        values: list[Tensor],
        **words: Callable[..., Any],
    ) -> None:
        self.grads, self.variables, self.values = grads, list(variables), values
        self.run = words["run"]
        self.after = words["after"]
        self.state = words["state"]
        self.advanced = words["advanced"]

    def dense(self, place: int) -> Tensor:
        """Returns a gradient with all its rows, for reading only."""
        watching, grad = current().watching, self.grads[place]
        if watching.is_tensor(grad):
            # Here, before a branch takes it for something of its own.
            [grad] = watching.kernels.apart([grad])
        return watching.kernels.dense(grad, tuple(self.values[place].shape))


@contextlib.contextmanager
def holding(variables: Sequence[Any], values: Sequence[Tensor]) -> Iterator[None]:
    """Variables have these values inside."""
    with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
        yield


def scale_of(optimizer: Any) -> Tensor | None:
    """Returns what the loss was multiplied by before it was differentiated."""
    dynamic = getattr(optimizer, "dynamic_scale", None)
    if dynamic is not None:
        return ops.copy(dynamic.value)
    factor = optimizer.loss_scale_factor
    return None if factor is None else ops.convert_to_tensor(factor, "float32")


def totals_of(optimizer: Any, scale: Tensor | None) -> dict[str, Tensor]:
    """Returns what is known of the step before it is made."""
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


def accumulators_of(optimizer: Any, step: Step) -> list[Tensor] | None:
    """Returns what was added up before this step, or None if nothing ever is."""
    inner = inner_optimizer(optimizer)
    if not inner.gradient_accumulation_steps:
        return None
    return [
        accumulated_gradient(inner, v).value
        for v, grad in zip(step.variables, step.grads, strict=True)
        if grad is not None
    ]


def applied(
    optimizer: Any,
    step: Step,
    scale: Tensor | None,
    accumulated: Any,
    places: Sequence[int],
) -> Parts:
    """Measures the gradient that the rule of the optimizer gets, if it is another."""
    inner, backend = inner_optimizer(optimizer), current().watching
    limits = ("clipnorm", "global_clipnorm", "clipvalue")
    clips = any(getattr(inner, limit, None) is not None for limit in limits)
    if accumulated is None and not clips:
        return {}
    given = [i for i, grad in enumerate(step.grads) if grad is not None]
    grads = [step.dense(place) for place in given]
    if scale is not None:
        grads = [g / ops.cast(scale, g.dtype) for g in grads]
    if accumulated is not None:
        steps = inner.gradient_accumulation_steps
        grads = [
            (g + backend.value(part)) / steps
            for g, part in zip(grads, accumulated, strict=True)
        ]
    chosen = [given.index(place) for place in places]
    kernels = backend.kernels
    parts = {"accumulated": squares([grads[i] for i in chosen], kernels)}
    if clips:
        clipped = clip_gradients(inner, grads)
        parts["applied"] = squares([clipped[i] for i in chosen], kernels)
    return parts
