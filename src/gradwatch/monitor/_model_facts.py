"""Facts about a model that a diagnosis needs, as plain values."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import keras
import numpy as np

from .._keras import consumers_of, inputs_of, producer_of
from ..engine import array_of
from ..select import Tree, WeightNode
from ._initialised import as_initialised, left_constant

_FAR = 3
"""Maximum number of layers between a kernel and its activation function."""
_PASSED = (keras.layers.Dropout, keras.layers.SpatialDropout2D)
_RECURRENT = (
    *(keras.layers.RNN, keras.layers.Bidirectional, keras.layers.ConvLSTM1D),
    *(keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D),
)
_INITIALISERS = {"recurrent_kernel": "recurrent_initializer"}


def model_facts(tree: Tree, watched: Collection[str]) -> dict[str, Any]:
    """Returns what is known of the weights and layers of a model, by address.

    Args:
        tree: The tree of the model.
        watched: The addresses of the weights that are recorded.
    """
    weights = {
        address: _weight(tree, node, address in watched)
        for address, node in tree.weights.items()
        if node.learnable
    }
    addresses = {id(node.layer): address for address, node in tree.layers.items()}
    layers = {address: _layer(node.layer) for address, node in tree.layers.items()}
    for address, node in tree.layers.items():
        # The softmax over keys takes the same number off each: their bias does nothing.
        if isinstance(node.layer, keras.layers.MultiHeadAttention):
            layers.setdefault(f"{address}/key", {})["mixing"] = True
    heads = [addresses[id(op)] for op in _heads(tree.model) if id(op) in addresses]
    facts: dict[str, Any] = {"weights": weights, "layers": layers, "heads": heads}
    if _has_softmax_twice(tree.model):
        facts["softmax_twice"] = True
    return facts


def _weight(tree: Tree, node: WeightNode, watched: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "layer": node.layer,
        "shape": [int(length) for length in node.variable.shape],
        "dtype": str(node.variable.dtype),
        "trainable": node.trainable,
        "watched": watched,
    }
    layer = tree.layers[node.layer].layer if node.layer in tree.layers else None
    if getattr(layer, "trainable", True) is False:
        facts["held"] = True  # the layer says no, whatever its weights say
    role = node.address.rpartition("/")[2]
    attribute = _INITIALISERS.get(role, f"{role}_initializer")
    initialiser = getattr(layer, attribute, None)
    with contextlib.suppress(Exception):  # it may have no value now
        array = array_of(node.variable)
        facts["constant"] = bool(array.size > 1 and np.ptp(array) == 0)
        facts["untrained"] = as_initialised(array, initialiser)
        if node.trainable and left_constant(array, initialiser):
            facts["moved"] = True
    return facts


def _layer(layer: Any) -> dict[str, Any]:
    own = _function(layer)
    after = list(consumers_of(layer))
    facts = {
        "class": type(layer).__name__,
        "own_activation": own,
        "activation": own if own not in (None, "linear") else _function_after(layer),
        "normalised": bool(after) and all(_is_normalisation(op) for op in after),
        "feeds_recurrent": any(isinstance(op, _RECURRENT) for op in after),
        "compute": getattr(layer, "compute_dtype", None),
    }
    return {name: value for name, value in facts.items() if value}


def _function(layer: Any) -> str | None:
    """Returns the name of the activation function that a layer ends in, or is."""
    if isinstance(layer, keras.layers.ReLU):
        return "relu" if not layer.negative_slope else "leaky_relu"
    function = getattr(layer, "activation", None)
    if function is None or isinstance(layer, _RECURRENT):
        return None
    return getattr(function, "__name__", None) or type(function).__name__


def _function_after(layer: Any) -> str | None:
    for _ in range(_FAR):
        after = list(consumers_of(layer))
        if len(after) != 1:
            return None
        layer = after[0]
        function = _function(layer)
        if function is not None and not getattr(layer, "weights", None):
            return function
        if not _is_normalisation(layer) and not isinstance(layer, _PASSED):
            return None
    return None


def _is_normalisation(layer: Any) -> bool:
    return "Normalization" in type(layer).__name__


def _heads(model: Any) -> Iterator[Any]:
    """Yields the layer with weights that each output of the model comes from."""
    for output in keras.tree.flatten(getattr(model, "outputs", None) or ()):
        operation = producer_of(output)
        for _ in range(_FAR):
            if operation is None or getattr(operation, "weights", None):
                break
            operation = _before(operation)
        if operation is not None:
            yield operation


def _has_softmax_twice(model: Any) -> bool:
    """Returns whether an output is a softmax, and a second one is next to it."""
    losses = [loss for loss in keras.tree.flatten(getattr(model, "loss", None)) if loss]
    in_loss = any(getattr(loss, "from_logits", False) is True for loss in losses)
    for output in keras.tree.flatten(getattr(model, "outputs", None) or ()):
        last = producer_of(output)
        before = None if getattr(last, "weights", None) else _before(last)
        if _is_softmax(last) and (in_loss or _is_softmax(before)):
            return True
    return False


def _is_softmax(operation: Any) -> bool:
    is_layer = isinstance(operation, keras.layers.Softmax)
    return is_layer or _function(operation) == "softmax"


def _before(operation: Any) -> Any:
    tensors = inputs_of(operation)
    return producer_of(tensors[0]) if len(tensors) == 1 else None
