"""The tensors of a model that a question is about, with their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

from .._errors import GradwatchError, arg, quoted, renamed
from ..engine import Entry, Leaf, input_names
from ..select import Activations, Tree, activations, inputs

Tensor = Any


@dataclass(frozen=True, slots=True)
class Tensors:
    """Inputs of the model, or outputs of layers: a leaf, name, dtype and array each."""

    leaves: list[Leaf] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)

    def tensors(
        self, rows: np.ndarray, arrays: Sequence[np.ndarray] | None = None
    ) -> list[Tensor]:
        """Returns rows of the values, or of other arrays, as the model takes them."""
        chosen = self.values if arrays is None else arrays
        return [
            ops.convert_to_tensor(array[rows], dtype)
            for array, dtype in zip(chosen, self.dtypes, strict=True)
        ]

    def cast(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns tensors in the dtypes that the model has there."""
        return [ops.cast(t, d) for t, d in zip(tensors, self.dtypes, strict=True)]


def selector(layer: Any) -> Any:
    """Returns the selector for a `layer=`; the inputs for None."""
    if layer is None:
        return inputs()
    if isinstance(layer, Activations):
        return layer
    with renamed(activations="layer"):
        return activations(layer)


def input_tensors(model: Any, x: Any, tree: Tree, *, follows: bool = False) -> Tensors:
    """Returns the inputs that are floating-point numbers.

    Args:
        model: The model.
        x: One batch for it.
        tree: Of the model.
        follows: True if inputs are followed although a layer is named, so that to name
            one is no way out.

    Raises:
        GradwatchError: If there are none.
    """
    flat = keras.tree.flatten(x)
    tensors = Tensors()
    for name, tensor in zip(input_names(model, x), flat, strict=True):
        if is_float(tensor):
            tensors.leaves.append(Leaf("input", name))
            tensors.names.append(name)
            tensors.dtypes.append(keras.backend.standardize_dtype(tensor.dtype))
            tensors.values.append(to_numpy(tensor))
    if not tensors.leaves:
        raise GradwatchError(_whole_numbers(tree, flat, follows=follows))
    return tensors


def layer_tensors(entries: Sequence[Entry], values: Sequence[np.ndarray]) -> Tensors:
    """Returns the outputs of layers in a pass."""
    return Tensors(
        [entry.leaf for entry in entries],
        [entry.name for entry in entries],
        [entry.dtype for entry in entries],
        list(values),
    )


def is_float(tensor: Any) -> bool:
    """Returns whether it is a tensor of floating-point numbers."""
    if tensor is None:
        return False
    return "float" in keras.backend.standardize_dtype(tensor.dtype)


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Returns a tensor as a NumPy array; half precision becomes float32."""
    if is_float(tensor) and keras.backend.standardize_dtype(tensor.dtype) != "float64":
        tensor = ops.cast(tensor, "float32")
    return np.asarray(ops.convert_to_numpy(tensor))


def replaced(x: Any, tensors: Sequence[Any]) -> Any:
    """Returns the batch with others in the place of its floating-point tensors."""
    fresh = iter(tensors)
    return keras.tree.map_structure(lambda t: next(fresh) if is_float(t) else t, x)


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenates the parts of a batch; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _whole_numbers(tree: Tree, flat: list[Any], *, follows: bool) -> str:
    kinds = sorted({str(keras.backend.standardize_dtype(t.dtype)) for t in flat})
    embeddings = [
        address
        for address, node in tree.layers.items()
        if isinstance(node.layer, keras.layers.Embedding)
    ]
    way_out = "Turn pixels into numbers with a gradient: `x.astype('float32')`."
    if embeddings and follows:
        way_out = (
            f"This method follows the inputs themselves, whatever {arg('layer')} is: "
            f"`gradwatch.integrated_gradients(…, layer={embeddings[0]!r})` and "
            "`gradwatch.attribute.occlusion` explain tokens."
        )
    elif embeddings:
        way_out = (
            f"Name the layer that makes them into numbers: `layer={embeddings[0]!r}`"
        )
        others = quoted(embeddings[1:])
        way_out += f" (or {others})." if others else "."
    return (
        f"{arg('x')} must hold floating-point numbers to be attributed to. Received: "
        f"dtype {', '.join(kinds)}, which has no gradient. {way_out}"
    )
