"""A batch: the data that varies from call to call."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from .._errors import GradwatchError
from ..targets import Loss, Target
from ._convert import batch_size, to_tensors
from ._expected import check_inputs, check_labels, single_input, takes_text


@dataclass(frozen=True, slots=True)
class Batch:
    """The data of one call: a flat list of tensors, and their structure."""

    tensors: list[Any]
    structure: Any
    size: int

    @property
    def signature(self) -> Hashable:
        """Key of the compiled pass: batches of equal signature share one."""
        specs = tuple((tuple(t.shape), str(t.dtype)) for t in self.tensors)
        return (repr(self.structure), specs)

    def unflatten(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """Returns the parts of the batch, made of these tensors."""
        parts: dict[str, Any] = keras.tree.map_structure(
            lambda index: None if index is None else tensors[index], self.structure
        )
        return parts


def make_batch(
    model: keras.Layer, x: Any, y: Any, target: Target, given: Sequence[Any]
) -> Batch:
    """Checks and converts the data of the caller.

    Args:
        model: The model.
        x: One batch of inputs.
        y: Labels of the batch.
        target: The target to differentiate.
        given: Activations that replace the outputs of layers.

    Raises:
        GradwatchError: If the data is not a batch of this model.
    """
    x = to_tensors(single_input(model, x), "x", text=takes_text(model))
    size = batch_size(x, "x")
    check_inputs(model, x)
    check_labels(model, y, target)
    if y is not None:
        y = to_tensors(y, "y")
        labels = batch_size(y, "y")
        if labels != size:
            raise GradwatchError(
                "`y` must have one label per example of `x`. Received: "
                f"{labels} labels for {size} examples."
            )
    arrays = {
        name: to_tensors(value, name) for name, value in target.arrays(y, size).items()
    }
    scale = _scale(model, target)
    parts = {"x": x, "y": y, "arrays": arrays, "scale": scale, "given": [*given]}
    leaves, numbers = keras.tree.flatten(parts), itertools.count()
    indices = [None if leaf is None else next(numbers) for leaf in leaves]
    tensors = [leaf for leaf in leaves if leaf is not None]
    return Batch(tensors, keras.tree.pack_sequence_as(parts, indices), size)


def _scale(model: Any, target: Target) -> Any:
    """Returns the loss scale that `fit` would use now, or None."""
    optimizer = getattr(model, "optimizer", None)
    if not isinstance(target, Loss) or optimizer is None:
        return None
    one = 1.0
    scale = optimizer.scale_loss(one)
    return None if scale is one else keras.ops.convert_to_tensor(scale, "float32")
