"""Why is this gradient None?"""

from __future__ import annotations

from typing import Any

import keras

from .._errors import AddressError, GradwatchError, closest, quoted
from ..capture import Engine, Reason, ensure_built
from ..select import Activations, Inputs, Tree, Weights, matching, split_suffix, walk
from ..targets import as_target


def why_none(
    model: keras.Layer,
    x: Any,
    y: Any = None,
    name: str = "",
    *,
    target: Any = None,
    loss: Any = None,
    training: bool | None = None,
) -> Reason:
    """Says which link is cut between the target and a weight, activation or input.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> inputs = keras.Input((3,))
    >>> hidden = keras.layers.Dense(4, name="encoder")(inputs)
    >>> cut = keras.layers.Lambda(keras.ops.stop_gradient, name="cut")(hidden)
    >>> model = keras.Model(inputs, keras.layers.Dense(1)(cut))
    >>> reason = gw.why_none(
    ...     model, np.ones((2, 3)), np.ones((2, 1)), "encoder/kernel", loss="mse"
    ... )
    >>> reason.cause, reason.place
    ('stop_gradient', 'cut')
    >>> print(reason)
    `stop_gradient` in layer 'cut' cuts every path from the target. Remove it if ...

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        y: Its labels, for a loss.
        name: The address of a weight, a layer or an input.
        target: As in `gradients`.
        loss: As in `gradients`.
        training: As in `gradients`.

    Returns:
        The reason; its `cause` is `"none"` when there is a gradient after all.
    """
    if isinstance(y, str) and not name:
        y, name = None, y
    chosen = as_target(target, loss)
    if not isinstance(model, keras.Layer):
        raise GradwatchError(
            f"`model` must be a Keras 3 model or layer. Received: {type(model)!r}."
        )
    ensure_built(model, x)
    tree = walk(model)
    selector = _selector(name, tree)
    engine = Engine(selector, training=training, compiled=True)
    entries = engine.run(model, x, y, chosen).entries
    reasons = [entry.reason for entry in entries if entry.reason is not None]
    if reasons:
        return reasons[0]
    node = tree.weights.get(name)
    if node is not None and not node.trainable:
        return Reason(
            "frozen",
            f"There is a gradient, but {name!r} is not trainable, so `fit` does not "
            "use it and `gradients` gives it only when asked for by name.",
            name,
        )
    return Reason("none", f"There is a gradient for {name!r}: nothing is cut.", name)


def _selector(name: str, tree: Tree) -> Weights | Activations | Inputs:
    if name == "inputs" or name.startswith("inputs["):
        return Inputs(None if name == "inputs" else name)
    at = "output"
    base = name
    if name.endswith(":input"):
        base, at = name.removesuffix(":input"), "input"
    if matching(name, list(tree.weights)):
        return Weights(name)
    layer = split_suffix(base, tree)[0]
    if matching(layer, list(tree.layers)) or layer in tree.aliases:
        return Activations(base, at)
    names = [*tree.weights, *tree.layers, "inputs"]
    raise AddressError(
        "`name` must be the address of a weight, a layer or an input. Received: "
        f"{name!r}. Closest: {quoted(closest(name, names))}. `gradwatch.layers(model)` "
        "lists them all."
    )
