"""Targets: model outputs in, the number to differentiate out."""

from __future__ import annotations

from typing import Any

import keras

from .._errors import TargetError, arg
from .._keras import is_keras_loss
from ._loss import Loss as Loss
from ._loss import has_loss as has_loss
from ._loss import loss as loss
from ._loss import needs_labels as needs_labels
from ._loss import num_losses as num_losses
from ._loss import prepared_loss as prepared_loss
from ._neuron import neuron as neuron
from ._scores import Function as Function
from ._scores import class_score as class_score
from ._scores import mean_output as mean_output
from ._scores import output as output
from ._target import Setting as Setting
from ._target import Target as Target
from ._target import named_outputs as named_outputs
from ._target import whole_index as whole_index


def as_target(target: Any, loss_function: Any = None) -> Target:
    """Returns the target for the arguments `target=` and `loss=`."""
    if loss_function is not None:
        if target is not None:
            raise TargetError(
                f"{arg('target')} and `loss` both say what to differentiate. Received: "
                "both. Give one; `target=gradwatch.loss(…)` also takes weights."
            )
        return loss_function if isinstance(loss_function, Loss) else Loss(loss_function)
    if target is None:
        return Loss()
    if isinstance(target, Target):
        return target
    if any(target is door for door in (class_score, output, mean_output, neuron, loss)):
        name = target.__name__
        received = f"the function `{name}` itself. Call it: `gradwatch.{name}(…)`."
    elif isinstance(target, keras.losses.Loss) or is_keras_loss(target):
        received = (
            "a loss, a function of labels and outputs. Write `loss=…` instead of "
            "`target=…`."
        )
    elif callable(target) and not isinstance(target, type):
        return Function(target)
    else:
        received = (
            f"an object of type {type(target).__name__}. For a class write "
            "`gradwatch.class_score(i)`, for one output `gradwatch.output(…)`, for "
            "another loss `loss=…`."
        )
    raise TargetError(
        f"{arg('target')} must be a target or a function of the outputs. Received: "
        f"{received}"
    )
