"""The verb: finds the first non-finite value of a training step, and its cause."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any

import keras

from ..._errors import GradwatchError, TargetError, called_as
from ..._keras import compiled_loss
from ...backends import current
from ...engine import Engine
from ...select import Selector, Tree, activations, inputs, require_model, walk, weights
from ...targets import (
    Loss,
    Setting,
    Target,
    as_target,
    has_loss,
    named_outputs,
    needs_labels,
)
from ._arrays import dtype_of
from ._pass import Pass
from ._result import Autopsy
from ._search import search


def autopsy(
    model: keras.Layer,
    x: Any,
    y: Any = None,
    *,
    target: Any = None,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | None = None,
) -> Autopsy:
    """Finds the first non-finite value of a training step, and names its cause.

    It makes a step of its own and looks at the input data, the weights, the forward
    pass, the loss, the backward pass and the optimizer's update, in this order. How
    `fit` was compiled makes no difference. The model, its optimizer and its random
    streams stay as they are. Give it the batch on which the loss became NaN, and the
    weights from before that step.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> inputs = keras.Input((2,))
    >>> logs = keras.ops.log(inputs)
    >>> model = keras.Model(inputs, keras.layers.Dense(1)(logs))
    >>> model.compile(loss="mse")
    >>> result = gw.autopsy(model, np.array([[1.0, 0.0]]), np.ones((1, 1)))
    >>> result.where, result.address, result.cause
    ('activation', 'log', 'log of zero')

    Args:
        model: A Keras model or layer; built on first use if need be.
        x: One batch of inputs, as the model takes them.
        y: Its labels. Without labels that the loss needs, only the forward pass is
            looked at.
        target: What to differentiate instead of the loss: `loss("mse")`,
            `class_score(i)`, a function of the outputs.
        sample_weight: One weight per example, as in `fit`.
        class_weight: A weight for each class, as in `fit`.

    Returns:
        What was found; it also says when nothing was.

    Raises:
        GradwatchError: When an argument cannot be used; the message says why.
    """
    require_model(model)
    chosen, note = _target(model, y, target, sample_weight, class_weight)
    with called_as("autopsy"):
        try:
            examined = _run(model, x, y, chosen)
        except TargetError:
            # Compiled without a loss: only the pass tells whether `call` adds one.
            asked = target is not None or compiled_loss(model) is not None
            if asked or not isinstance(chosen, Loss):
                raise
            note = _NO_LOSS
            examined = _run(model, x, y, _Forward())
    named = "sample_weight" if class_weight is None else "class_weight"
    result = search(examined, x, named)
    if note and not result.found:
        result = dataclasses.replace(result, notes=(*result.notes, note))
    return result


_NO_LOSS = (
    "Only the forward pass was looked at: the model is not compiled with a loss. Call "
    "`model.compile(loss=…)`, or pass `target=gradwatch.loss('mse')` or another target."
)
_NO_LABELS = (
    "Only the forward pass was looked at: the loss needs labels. Pass "
    "`autopsy(model, x, y)`."
)


class _Forward(Target):
    """The target of a pass in which only the forward half is of interest."""

    uses_labels = True  # so that they may be given

    def key(self) -> Hashable:
        """Returns the same key for all of them."""
        return "forward"

    def value(self, setting: Setting) -> Any:
        """Returns the mean of the outputs: any number will do, it is not used."""
        outputs = named_outputs(setting.model, setting.outputs).values()
        floats = [tensor for tensor in outputs if "float" in dtype_of(tensor)]
        numbers = [keras.ops.mean(keras.ops.cast(t, "float32")) for t in floats]
        return sum(numbers, keras.ops.zeros(()))

    def __str__(self) -> str:
        return "the forward pass"


def _target(
    model: Any, y: Any, target: Any, sample_weight: Any, class_weight: Any
) -> tuple[Target, str]:
    """Returns what to differentiate, and what that leaves out."""
    weighted = sample_weight is not None or class_weight is not None
    if target is not None:
        chosen = as_target(target)
        if not weighted:
            return chosen, ""
        own = getattr(chosen, "sample_weight", 0), getattr(chosen, "class_weight", 0)
        if not isinstance(chosen, Loss) or own != (None, None):
            raise GradwatchError(
                "`sample_weight` and `class_weight` go with a loss that has none yet. "
                f"Received: the target {chosen}. Leave `target` out, or the weights."
            )
        return Loss(chosen.function, sample_weight, class_weight), ""
    chosen = Loss(None, sample_weight, class_weight)
    if not isinstance(model, keras.Model) or not has_loss(model):
        return _Forward(), _NO_LOSS
    if y is None and needs_labels(model, chosen):
        return _Forward(), _NO_LABELS
    return chosen, ""


def _run(model: Any, x: Any, y: Any, target: Target) -> Pass:
    """Runs forward and backward once, with a tap on everything."""
    # Only when it is built, all weights are known.
    Engine((), training=True, compiled=False).ready(model, x, y, target)
    tree = walk(model)
    engine = Engine(_everything(tree), training=True, compiled=current().COMPILES_FIRST)
    captured = engine.run(model, x, y, target)
    return Pass(tree, captured, target, not isinstance(target, _Forward))


def _everything(tree: Tree) -> list[Selector]:
    wanted: list[Selector] = [inputs()]
    if any(node.learnable for node in tree.weights.values()):
        wanted.append(weights())
    if tree.layers:
        wanted += [activations(), activations(at="input")]
    return wanted
