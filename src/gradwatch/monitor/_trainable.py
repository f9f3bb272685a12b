"""Warnings for models whose layers were frozen since `compile`, or are all frozen."""

from __future__ import annotations

import warnings
from typing import Any

from .._errors import quoted
from .._keras import inner_optimizer, variables_of
from ..backends import current
from ._watching import optimizers_of


def changed_since_compile(model: Any) -> list[str]:
    """Returns the variables that a new step would treat otherwise than the old one.

    On TensorFlow a step trains what was trainable when it was traced, until `compile`
    is called again. To watch means to trace anew, which would make the change count: a
    watched training would not be the one that was asked for.
    """
    trainable = {id(variable): variable for variable in model.trainable_variables}
    known: dict[int, Any] = {}
    for optimizer in optimizers_of(model):
        known |= {id(v): v for v in variables_of(inner_optimizer(optimizer))}
    variables = list((known | trainable).values())
    written = current().watching.written(model.train_function, variables)
    if written is None:
        return []
    # Written but no longer trainable: frozen since. Not written, and known to no
    # optimizer: trainable since. (One that is known may just have no gradient.)
    return [
        variable.path
        for variable, is_written in zip(variables, written, strict=True)
        if id(variable) not in (trainable if is_written else known)
    ]


def warn_of_change(names: list[str]) -> None:
    """Warns that a training is not watched, and why."""
    warnings.warn(
        f"gradwatch does not watch this training: `trainable` was changed for "
        f"{quoted(names, 3)} since the model was compiled. Keras goes on as before "
        "until `compile` is called again, and a watched step would not. Call "
        "`model.compile` after changing `trainable`.",
        RuntimeWarning,
        stacklevel=3,
    )


def warn_of_nothing(model: Any) -> None:
    """Warns that a training without a record had nothing to record, if that is so."""
    if model is not None and not model.trainable_variables:
        warnings.warn(
            f"gradwatch recorded nothing: no weight of {model.name!r} is trainable, so "
            "that there are no gradients. Set `trainable = True` on a layer, and "
            "compile again.",
            RuntimeWarning,
            stacklevel=2,
        )
