"""The first place in a pass where something is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ...backends import Sparse
from ...engine import Captured, Entry
from ...select import Tree
from ...targets import Target
from ._numbers import LIMITS, dtype_of, floats, is_bad, largest


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward and one backward pass, and what it was made of."""

    tree: Tree
    captured: Captured
    parts: dict[str, Any]
    target: Target
    backward: bool
    """Whether the gradients mean anything."""

    @property
    def events(self) -> list[Entry]:
        """What went in and came out of each layer, in the order of execution."""
        return [e for e in self.captured.entries if e.kind == "activation"]

    def layer(self, address: str) -> Any:
        """Returns the layer of an address; the model itself for ""."""
        return self.tree.layers[address].layer if address else self.tree.model

    def around(self, address: str) -> Any:
        """Returns the layer, or the model, whose `call` calls this layer."""
        return self.layer(self.tree.layers[address].parent)


def data(parts: dict[str, Any], weights: str) -> Iterator[tuple[str, Any]]:
    """Yields what the caller gave, by name.

    Args:
        parts: Inputs, labels and weights, as tensors.
        weights: The argument that the weights of the examples came from.
    """
    named = {"x": parts["x"], "y": parts["y"]}
    named[weights] = parts["arrays"].get("sample_weight")
    for name, structure in named.items():
        for path, tensor in keras.tree.flatten_with_path(structure):
            yield name + "".join(f"[{part}]" for part in path), tensor


def first_activation(looked: Pass) -> Entry | None:
    """Returns the first activation that is not finite, in the order of execution."""
    return next((e for e in looked.events if is_bad(floats(e.value))), None)


def first_output(looked: Pass) -> tuple[str, Any] | None:
    """Returns the first output of the model that is not finite."""
    named = looked.captured.outputs.items()
    return next(((n, t) for n, t in named if is_bad(floats(t))), None)


def bad_weights(looked: Pass) -> list[Entry]:
    """Returns the weights whose gradients are not finite."""
    return [e for e in looked.captured.entries if e.kind == "weight" and _slope_bad(e)]


def first_gradient(looked: Pass) -> Entry | None:
    """Returns the first gradient that is not finite, in the order of the way back.

    The gradient of a weight comes after that of what went into its layer: if both are
    broken, the layer is.
    """
    events = looked.events
    found: list[tuple[float, Entry]] = [
        (place, event) for place, event in enumerate(events) if _slope_bad(event)
    ]
    for entry in bad_weights(looked):
        owner = looked.tree.weights[entry.leaf.address].layer
        places: list[int] = []
        while not places and owner:  # inside a loop only the layer around is seen
            sides = [(i, e.leaf.at) for i, e in enumerate(events) if _is(e, owner)]
            places = [i for i, at in sides if at == "input"] or [i for i, _ in sides]
            owner = owner.rpartition("/")[0]
        found.append((max(places, default=-1) - 0.5, entry))
    return max(found, key=lambda item: item[0])[1] if found else None


def dense(gradient: Any) -> np.ndarray | None:
    """Returns the numbers of a gradient; of a sparse one, those of its rows."""
    return floats(rows(gradient))


def rows(gradient: Any) -> Any:
    """Returns a gradient as a tensor; of a sparse one, its rows."""
    return gradient.values if isinstance(gradient, Sparse) else gradient


def is_output(looked: Pass, entry: Entry) -> bool:
    """Whether an activation is what the model puts out, so that the loss is next."""
    value = floats(entry.value)
    return value is not None and any(
        np.array_equal(value, out)
        for out in map(floats, looked.captured.outputs.values())
        if out is not None
    )


def magnitudes(looked: Pass) -> dict[str, Any]:
    """Returns what is closest to an overflow, and how many powers of ten it is off."""
    values = [(e.name, e.value) for e in looked.events]
    values += looked.captured.outputs.items()
    found = _closest("activation", values)
    if looked.backward:
        slopes = [(e.name, e.gradient) for e in looked.captured.entries]
        found |= _closest("gradient", [(name, rows(slope)) for name, slope in slopes])
    return found


def _closest(what: str, tensors: list[tuple[str, Any]]) -> dict[str, Any]:
    best: dict[str, Any] = {}
    least = math.inf
    for name, tensor in tensors:
        array = floats(tensor)
        if array is None:
            continue
        size, dtype = largest(array), dtype_of(tensor)
        room = math.inf
        if size:
            room = math.log10(LIMITS.get(dtype, LIMITS["float32"])) - math.log10(size)
        if not best or room < least:
            least = room
            best = {
                f"largest_{what}": size,
                f"{what}_at": name,
                f"{what}_dtype": dtype,
                f"{what}_headroom": round(room, 2) if math.isfinite(room) else None,
            }
    return best


def _slope_bad(entry: Entry) -> bool:
    return is_bad(dense(entry.gradient))


def _is(entry: Entry, address: str) -> bool:
    return entry.leaf.address == address
