"""The addresses of a model: which layers and weights it has, and what they are called.

Neither `variable.name` nor `variable.path` nor `layer.name` is unique in Keras 3. An
address is: the path of layer names below the model, with `#2` behind the second
sibling of a name. It depends on nothing but the model, so it is the same on every
backend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras


@dataclass(frozen=True, slots=True)
class LayerNode:
    """A layer (or a `keras.ops` node of a functional graph) and its address."""

    address: str
    layer: keras.Operation
    parent: str


@dataclass(frozen=True, slots=True)
class WeightNode:
    """A variable and its address. `learnable` tells kernels from moving averages."""

    address: str
    variable: keras.Variable
    layer: str
    learnable: bool

    @property
    def trainable(self) -> bool:
        """Whether `fit` would change it now."""
        return self.learnable and bool(self.variable.trainable)


@dataclass(frozen=True, slots=True)
class Tree:
    """Every address of one model, in depth-first order of creation."""

    model: keras.Layer
    layers: dict[str, LayerNode]
    weights: dict[str, WeightNode]
    aliases: dict[str, str] = field(default_factory=dict)
    input_layers: frozenset[str] = frozenset()

    def address_of(self, layer: object) -> str | None:
        """Returns the address of a layer object, or None if it is not in here."""
        for node in self.layers.values():
            if node.layer is layer:
                return node.address
        return None


def children(layer: Any) -> Iterator[keras.Operation]:
    """Yields the direct sublayers of a layer, each once, inputs left out.

    A functional graph also has plain operations, which `layers` does not list.
    """
    seen: set[int] = set()
    candidates = [*getattr(layer, "_operations", ()), *getattr(layer, "_layers", ())]
    for child in candidates:
        if id(child) not in seen and not isinstance(child, keras.layers.InputLayer):
            seen.add(id(child))
            yield child


def walk(model: keras.Layer) -> Tree:
    """Finds the address of every layer and weight of a model.

    A layer that hangs in several places is listed once, where it is first met; the
    other paths are kept as aliases.
    """
    layers: dict[str, LayerNode] = {}
    weights: dict[str, WeightNode] = {}
    aliases: dict[str, str] = {}
    homes: dict[int, str] = {}
    known_variables: set[int] = set()
    input_layers: set[str] = set()

    def own_weights(layer: Any, address: str) -> None:
        learnable = list(getattr(layer, "_trainable_variables", ()))
        state = list(getattr(layer, "_non_trainable_variables", ()))
        names: Counter[str] = Counter()
        for position, variable in enumerate([*learnable, *state]):
            unique = _numbered(variable.name, names)
            if id(variable) in known_variables:  # tied: its first owner names it
                continue
            known_variables.add(id(variable))
            full = _join(address, unique)
            is_learnable = position < len(learnable)
            weights[full] = WeightNode(full, variable, address, is_learnable)

    def visit(layer: Any, address: str) -> None:
        own_weights(layer, address)
        input_layers.update(
            _join(address, item.name)
            for item in getattr(layer, "_layers", ())
            if isinstance(item, keras.layers.InputLayer)
        )
        names: Counter[str] = Counter()
        for child in children(layer):
            full = _join(address, _numbered(child.name, names))
            if id(child) in homes:
                aliases[full] = homes[id(child)]
                continue
            homes[id(child)] = full
            layers[full] = LayerNode(full, child, address)
            visit(child, full)

    homes[id(model)] = ""
    visit(model, "")
    return Tree(model, layers, weights, aliases, frozenset(input_layers))


def _numbered(name: str, seen: Counter[str]) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"


def _join(address: str, name: str) -> str:
    return f"{address}/{name}" if address else name
