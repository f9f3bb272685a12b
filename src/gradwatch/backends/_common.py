"""Helpers that the three backends share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from .._shadow import looked_up_late
from ._flow import Verdict
from ._protocol import Leaf, Outcome, Passed, Sparse, Tensor


def unscaled(gradient: Any, scale: Tensor | None) -> Any:
    """Divides a gradient by the loss scale, in float32: float16 would underflow."""
    if scale is None or gradient is None:
        return gradient
    if isinstance(gradient, Sparse):
        values = unscaled(gradient.values, scale)
        return Sparse(gradient.indices, values, gradient.shape)
    if keras.backend.standardize_dtype(gradient.dtype) in ("float16", "bfloat16"):
        gradient = keras.ops.cast(gradient, "float32")
    return gradient / keras.ops.cast(scale, gradient.dtype)


def scaled(outcome: Outcome) -> Tensor:
    """Returns what is differentiated: the target times the loss scale."""
    if outcome.scale is None:
        return outcome.value
    return outcome.value * keras.ops.cast(outcome.scale, outcome.value.dtype)


def passed(
    outcome: Outcome,
    gradients: Mapping[Leaf, Any],
    kept: Mapping[Leaf, Tensor],
    verdicts: Mapping[Leaf, Verdict],
) -> Passed:
    """Returns a pass; the zeros of a cut path become None: nothing was measured."""
    measured = {
        leaf: gradient if leaf not in verdicts or verdicts[leaf].connected else None
        for leaf, gradient in gradients.items()
    }
    value, outputs, extras = outcome.value, outcome.outputs, outcome.extras
    return Passed(value, outputs, measured, kept, outcome.facts, verdicts, extras)


def suspicious(gradients: Mapping[Leaf, Any]) -> bool:
    """Returns whether a gradient is absent or all zero, and so worth explaining."""
    for gradient in gradients.values():
        if gradient is None:
            return True
        values = gradient.values if isinstance(gradient, Sparse) else gradient
        if not bool(keras.ops.any(values != 0)):
            return True
    return False


def fresh_train_function(model: Any) -> Any:
    """Returns a new train function of Keras; the model keeps the one it has."""
    kept = model.train_function
    try:
        # It keeps the `train_step` it reads; the taps on it come and go.
        with looked_up_late(model, "train_step"):
            model.make_train_function(force=True)
        return model.train_function
    finally:
        model.train_function = kept
