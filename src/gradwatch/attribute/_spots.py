"""Spots: the tensors of a model that a question is about, with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

from .._errors import GradwatchError, quoted, told_as
from ..engine import Entry, Leaf, input_names
from ..select import Activations, Tree, activations, inputs

Tensor = Any


@dataclass(frozen=True, slots=True)
class Spots:
    """Inputs of the model, or what layers give: one leaf, name, dtype, array each."""

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
    """Returns what `layer=` means: the inputs, where it is None."""
    if layer is None:
        return inputs()
    if isinstance(layer, Activations):
        return layer
    with told_as("layer", "activations"):
        return activations(layer)


def of_inputs(model: Any, x: Any, tree: Tree, *, follows: bool = False) -> Spots:
    """Returns the inputs that are floating-point numbers.

    Args:
        model: The model.
        x: One batch for it.
        tree: Of the model.
        follows: Whether inputs are followed although a layer is named, so that to name
            one is no way out.

    Raises:
        GradwatchError: When none is.
    """
    flat = keras.tree.flatten(x)
    spots = Spots()
    for name, tensor in zip(input_names(model, x), flat, strict=True):
        if is_float(tensor):
            spots.leaves.append(Leaf("input", name))
            spots.names.append(name)
            spots.dtypes.append(keras.backend.standardize_dtype(tensor.dtype))
            spots.values.append(host(tensor))
    if not spots.leaves:
        raise GradwatchError(_whole_numbers(tree, flat, follows=follows))
    return spots


def of_entries(entries: Sequence[Entry], values: Sequence[np.ndarray]) -> Spots:
    """Returns what layers gave in a pass."""
    return Spots(
        [entry.leaf for entry in entries],
        [entry.name for entry in entries],
        [entry.dtype for entry in entries],
        list(values),
    )


def is_float(tensor: Any) -> bool:
    """Whether it is a tensor of floating-point numbers."""
    if tensor is None:
        return False
    return "float" in keras.backend.standardize_dtype(tensor.dtype)


def host(tensor: Tensor) -> np.ndarray:
    """Returns a tensor as NumPy has it; half precision as float32."""
    if is_float(tensor) and keras.backend.standardize_dtype(tensor.dtype) != "float64":
        tensor = ops.cast(tensor, "float32")
    return np.asarray(ops.convert_to_numpy(tensor))


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Puts the parts of a batch together; a single one is not copied."""
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
            "This method follows the inputs themselves, whatever `layer` is: "
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
        "`x` must hold floating-point numbers to be attributed to. Received: dtype "
        f"{', '.join(kinds)}, which has no gradient. {way_out}"
    )
