"""`why_none`: the reason for a missing gradient."""

from __future__ import annotations

from typing import Any

import keras

from .._errors import AddressError, closest, listing, quoted, renamed
from ..engine import Engine, Reason
from ..select import (
    Activations,
    Inputs,
    Tree,
    Weights,
    activations,
    inputs,
    matching,
    split_suffix,
    walk,
    weights,
)
from ..targets import as_target


def why_none(
    model: keras.Layer,
    x: Any,
    y: Any = None,
    name: Any = "",
    *,
    target: Any = None,
    loss: Any = None,
    training: bool | None = None,
) -> Reason:
    """Finds the cut between the target and a weight, an activation or an input.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> inputs = keras.Input((3,))
    >>> hidden = keras.layers.Dense(4, name="encoder")(inputs)
    >>> cut = keras.layers.Lambda(keras.ops.stop_gradient, name="cut")(hidden)
    >>> model = keras.Model(inputs, keras.layers.Dense(1)(cut))
    >>> reason = gw.why_none(
    ...     model, np.ones((2, 3)), np.ones((2, 1)), "encoder/kernel", loss="mse"
    ... )
    >>> reason.cause, reason.address
    ('stop_gradient', 'cut')
    >>> print(reason)
    `stop_gradient` in layer 'cut' cuts every path from the target. Remove it if ...

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        y: Labels of the batch, for a loss.
        name: The address of a weight, a layer or an input; or a variable, a layer
            object or a selector.
        target: As in `gradients`.
        loss: As in `gradients`.
        training: As in `gradients`.

    Returns:
        The reason. Its `cause` is `"none"` if there is a gradient after all.
    """
    if isinstance(y, str) and not name:
        y, name = None, y
    chosen = as_target(target, loss)
    Engine(None, training=training, compiled=True).ready(model, x, y, chosen)
    tree = walk(model)
    with renamed(wrt="name"):
        engine = Engine(_selector(name, tree), training=training, compiled=True)
        entries = engine.run(model, x, y, chosen).entries
    for entry in entries:
        if entry.reason is not None:
            return entry.reason
    names = [entry.name for entry in entries]
    frozen = [n for n in names if n in tree.weights and not tree.weights[n].trainable]
    if frozen:
        return Reason(
            "frozen",
            f"There is a gradient, but {quoted(frozen)} is not trainable, so `fit` "
            "does not use it, and `gradients` returns it only if requested by name.",
            frozen[0],
        )
    return Reason("none", f"There is a gradient for {quoted(names)}: nothing is cut.")


def _selector(name: Any, tree: Tree) -> Weights | Activations | Inputs:
    if isinstance(name, Weights | Activations | Inputs):
        return name
    if isinstance(name, keras.Variable):
        return weights(name)
    if isinstance(name, keras.Operation):
        return activations(name)
    if isinstance(name, str) and name and (selector := _by_name(name, tree)):
        return selector
    names = [*tree.weights, *tree.layers, "inputs"]
    near = closest(name, names) if isinstance(name, str) else []
    hint = f"Closest: {quoted(near)}." if near else f"It has {quoted(names, 4)}."
    raise AddressError(
        "`name` must be the address of a weight, a layer or an input. Received: "
        f"{name!r}. {hint} {listing()} lists them all."
    )


def _by_name(name: str, tree: Tree) -> Weights | Activations | Inputs | None:
    if name == "inputs" or name.startswith("inputs["):
        return inputs(None if name == "inputs" else name)
    if matching(name, [*tree.weights, *tree.weight_aliases]):
        return weights(name)
    known = [*tree.layers, *tree.aliases]
    for at, base in (("output", name), ("input", name.replace(":input", "", 1))):
        if matching(split_suffix(base, tree)[0], known):
            return activations(base, at=at)
    return None
