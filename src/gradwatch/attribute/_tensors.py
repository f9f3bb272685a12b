"""The tensors of a model that a question is about, with their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
from keras import ops

from .._errors import arg, quoted
from ..engine import Leaf
from ..select import Tree, at_layer, inputs
from ._place import Place

Tensor = Any
LAYER = "that is attributed to"
"""The role of a layer here, for the message where none is named."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """Inputs of the model, or outputs of layers: a leaf, a dtype and a place each.

    Attributes:
        dtypes: The dtypes that the model has there, by the keys of the tensors in a
            pass.
        places: Their names, axes and values; half precision is float32 here.
    """

    dtypes: dict[Leaf, str]
    places: list[Place]

    @property
    def names(self) -> list[str]:
        """The address of each tensor."""
        return [place.name for place in self.places]

    @property
    def values(self) -> list[np.ndarray]:
        """The array of each tensor."""
        return [place.values for place in self.places]

    def having(self, values: Iterable[np.ndarray]) -> Tensors:
        """Returns the same tensors with other values."""
        pairs = zip(self.places, values, strict=True)
        places = [replace(p, values=v, activation=v) for p, v in pairs]
        return Tensors(self.dtypes, places)

    def cast(self, arrays: Iterable[np.ndarray]) -> list[Tensor]:
        """Returns arrays as the model takes them."""
        pairs = zip(arrays, self.dtypes.values(), strict=True)
        return [ops.convert_to_tensor(array, dtype) for array, dtype in pairs]


def selector(layer: Any) -> Any:
    """Returns the selector for a `layer=`; the inputs for None."""
    return inputs() if layer is None else at_layer(layer, LAYER)


def is_float(tensor: Any) -> bool:
    """Returns whether it is a tensor of floating-point numbers."""
    return tensor is not None and "float" in dtype_of(tensor)


def dtype_of(tensor: Tensor) -> str:
    """Returns the name of a tensor's dtype."""
    return str(keras.backend.standardize_dtype(tensor.dtype))


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Returns a tensor as a NumPy array; half precision becomes float32."""
    if is_float(tensor) and dtype_of(tensor) != "float64":
        tensor = ops.cast(tensor, "float32")
    return np.asarray(ops.convert_to_numpy(tensor))


def whole_numbers(tree: Tree, x: Any, *, follows: bool) -> str:
    """Returns the message for a batch that holds no floating-point numbers.

    Args:
        tree: Of the model.
        x: The batch.
        follows: True if inputs are followed although a layer is named, so that to name
            one is no way out.
    """
    kinds = sorted({dtype_of(t) for t in keras.tree.flatten(x) if t is not None})
    layers = {address: node.layer for address, node in tree.layers.items()}
    embeddings = [a for a in layers if isinstance(layers[a], keras.layers.Embedding)]
    way_out = "Turn pixels into numbers with a gradient: `x.astype('float32')`."
    if embeddings and follows:
        way_out = (
            f"This method follows the inputs themselves, whatever {arg('layer')} is: "
            f"`gradwatch.integrated_gradients(…, layer={embeddings[0]!r})` and "
            "`gradwatch.attribute.occlusion` explain tokens."
        )
    elif embeddings:
        others = f" (or {quoted(embeddings[1:])})" if embeddings[1:] else ""
        way_out = "Name the layer that makes them into numbers: "
        way_out += f"`layer={embeddings[0]!r}`{others}."
    return (
        f"{arg('x')} must hold floating-point numbers to be attributed to. Received: "
        f"dtype {', '.join(kinds)}, which has no gradient. {way_out}"
    )
