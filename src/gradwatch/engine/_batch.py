"""A batch: everything that varies from call to call."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from .._errors import GradwatchError
from ..targets import Target
from ._convert import batch_size, to_tensors
from ._expected import check_inputs, check_labels, single_input, takes_text


@dataclass(frozen=True, slots=True)
class Batch:
    """The data of one call, as one flat list and its structure."""

    tensors: list[Any]
    structure: Any
    size: int

    @property
    def signature(self) -> Hashable:
        """Batches of equal signature run through one compiled pass."""
        specs = tuple((tuple(t.shape), str(t.dtype)) for t in self.tensors)
        return (repr(self.structure), specs)

    def unflatten(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """Returns the parts of the batch with other tensors in their places."""
        parts: dict[str, Any] = keras.tree.map_structure(
            lambda place: None if place is None else tensors[place], self.structure
        )
        return parts


def make_batch(
    model: keras.Layer,
    x: Any,
    y: Any,
    target: Target,
    scale: Any,
    given: Sequence[Any] = (),
) -> Batch:
    """Checks and converts what the caller gave.

    Args:
        model: The model.
        x: One batch of inputs.
        y: Its labels.
        target: What is differentiated.
        scale: The loss scale.
        given: Activations that take the place of what layers give.

    Raises:
        GradwatchError: When it cannot be a batch of this model.
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
    if scale is not None:
        scale = keras.ops.convert_to_tensor(scale, dtype="float32")
    parts = {"x": x, "y": y, "arrays": arrays, "scale": scale, "given": [*given]}
    tensors: list[Any] = []

    def stow(leaf: Any) -> int | None:
        if leaf is None:
            return None
        tensors.append(leaf)
        return len(tensors) - 1

    structure = keras.tree.map_structure(stow, parts)
    return Batch(tensors, structure, size)
