"""One forward and one backward pass, and its first values that are not finite."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ...engine import Captured, Entry
from ...select import Tree
from ...targets import Target
from ._arrays import dtype_of, floats, is_bad, largest, limit_of


@dataclass(frozen=True)
class Pass:
    """One forward and one backward pass, and what it was made of.

    Attributes:
        tree: The model and its addresses.
        captured: The values and gradients of the pass.
        target: What was differentiated.
        backward: The gradients mean something.
    """

    tree: Tree
    captured: Captured
    target: Target
    backward: bool

    @property
    def activations(self) -> list[Entry]:
        """The inputs and outputs of all layers, in the order of execution."""
        return [e for e in self.captured.entries if e.kind == "activation"]

    @property
    def broken_weights(self) -> list[Entry]:
        """The weights whose gradients are not finite."""
        entries = self.captured.entries
        return [e for e in entries if e.kind == "weight" and is_bad(e.gradient)]

    def layer(self, address: str) -> Any:
        """Returns the layer of an address; the model itself for ""."""
        return self.tree.layers[address].layer if address else self.tree.model

    def owner(self, entry: Entry) -> str:
        """Returns the address of the layer that a weight or an activation is of."""
        address = entry.leaf.address
        return self.tree.weights[address].layer if entry.kind == "weight" else address

    def around(self, address: str) -> Any:
        """Returns the layer, or the model, whose `call` calls this layer."""
        return self.layer(self.tree.layers[address].parent)

    def data(self, weights: str) -> Iterator[tuple[str, Any]]:
        """Yields the inputs, labels and weights by name.

        Args:
            weights: The argument that the weights of the examples came from.
        """
        parts = self.captured.parts
        named = {"x": parts["x"], "y": parts["y"]}
        named[weights] = parts["arrays"].get("sample_weight")
        for name, structure in named.items():
            for path, tensor in keras.tree.flatten_with_path(structure):
                yield name + "".join(f"[{part}]" for part in path), tensor

    def first_activation(self) -> Entry | None:
        """Returns the first activation that is not finite, in order of execution."""
        return next((e for e in self.activations if is_bad(e.value)), None)

    def outputs_of(self, address: str) -> list[Entry]:
        """Returns the outputs of all calls of a layer."""
        own = (address, "output")
        return [e for e in self.activations if (e.leaf.address, e.leaf.at) == own]

    def first_output(self) -> tuple[str, Any] | None:
        """Returns the first output of the model that is not finite."""
        outputs = self.captured.outputs.items()
        return next((output for output in outputs if is_bad(output[1])), None)

    def first_gradient(self) -> Entry | None:
        """Returns the first gradient that is not finite, in order of the way back.

        The way back meets activations in reverse order. The gradient of a weight comes
        right after that of what went into its layer: if both are broken, the layer is.
        """
        broken: dict[float, Entry] = {
            self._position(self.owner(e)) - 0.5: e for e in self.broken_weights[::-1]
        }
        broken |= {at: e for at, e in enumerate(self.activations) if is_bad(e.gradient)}
        return broken[max(broken)] if broken else None

    def _position(self, layer: str) -> int:
        """Returns the index of the last input of a layer among the activations.

        Inside a loop only the layer around it is seen.
        """
        while layer:
            leaves = [(at, e.leaf) for at, e in enumerate(self.activations)]
            own = {at: leaf.at for at, leaf in leaves if leaf.address == layer}
            if own:
                return max([at for at in own if own[at] == "input"] or own)
            layer = layer.rpartition("/")[0]
        return -1

    def is_output(self, entry: Entry) -> bool:
        """Returns whether an activation is an output of the model: the loss is next."""
        value = floats(entry.value)
        if value is None:
            return False
        outputs = map(floats, self.captured.outputs.values())
        return any(np.array_equal(value, o) for o in outputs if o is not None)

    def magnitudes(self) -> dict[str, Any]:
        """Returns what is closest to an overflow, and its distance in powers of ten."""
        values = [(e.name, e.value) for e in self.activations]
        closest = _closest("activation", [*values, *self.captured.outputs.items()])
        if self.backward:
            gradients = ((e.name, e.gradient) for e in self.captured.entries)
            closest |= _closest("gradient", gradients)
        return closest


def _closest(what: str, tensors: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    rooms = []
    for name, tensor in tensors:
        if floats(tensor) is not None:
            size, dtype = largest(tensor), dtype_of(tensor)
            room = math.log10(limit_of(dtype)) - math.log10(size) if size else math.inf
            rooms.append((room, size, name, dtype))
    if not rooms:
        return {}
    room, size, name, dtype = min(rooms, key=operator.itemgetter(0))
    return {
        f"largest_{what}": size,
        f"{what}_at": name,
        f"{what}_dtype": dtype,
        f"{what}_headroom": round(room, 2) if math.isfinite(room) else None,
    }
