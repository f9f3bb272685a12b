"""Trainings that are not as they seem: layers were frozen since `compile`, or all."""

from __future__ import annotations

import warnings
from typing import Any

from .._errors import quoted
from .._keras import inner_optimizer, variables_of
from ..backends import current
from ._watching import optimizers_of


def changed(model: Any) -> list[str]:
    """Returns the variables that a new step would train otherwise than the old one.

    On TensorFlow a step trains what was trainable when it was traced, until `compile`
    is called again. To watch means to trace anew, which would make the change count: a
    watched training would not be the one that was asked for.
    """
    trainable = {id(variable): variable for variable in model.trainable_variables}
    known: dict[int, Any] = {}
    for optimizer in optimizers_of(model):
        for variable in variables_of(inner_optimizer(optimizer)):
            known[id(variable)] = variable
    variables = list((known | trainable).values())
    written = current().watching.written(model.train_function, variables)
    if written is None:
        return []
    frozen = [
        variable.path
        for variable, is_written in zip(variables, written, strict=True)
        if is_written and id(variable) not in trainable
    ]
    # One that no optimizer knows was not trainable; others may have no gradient.
    freed = [
        variable.path
        for variable, is_written in zip(variables, written, strict=True)
        if not is_written and id(variable) not in known
    ]
    return frozen + freed


def warn_of(names: list[str]) -> None:
    """Says why a training is not watched."""
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
