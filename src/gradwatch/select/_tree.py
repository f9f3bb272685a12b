"""The addresses of a model: which layers and weights it has, and what they are called.

Neither `variable.name` nor `variable.path` nor `layer.name` is unique in Keras 3. An
address is: the path of layer names below the model, with `#2` behind the second
sibling of a name. It depends on nothing but the model, so it is the same on every
backend.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras

from .._errors import GradwatchError
from .._keras import own_variables, sublayers


def require_model(model: object) -> None:
    """Raises when something is not a Keras 3 model or layer."""
    if not isinstance(model, keras.Layer):
        what = f"an object of type {type(model).__module__}.{type(model).__name__}"
        if isinstance(model, type):
            what = f"the class {model.__name__}, not an instance"
        raise GradwatchError(
            f"`model` must be a Keras 3 model or layer. Received: {what}. Models of "
            "`tf_keras` and modules of torch must be rebuilt, or wrapped in a Keras 3 "
            "layer."
        )


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
    aliases: dict[str, str]
    """Other paths to layers that hang in several places."""
    weight_aliases: dict[str, str]
    """Other names of weights: of shared layers, and of tied variables."""
    input_layers: frozenset[str] = frozenset()

    def address_of(self, layer: object) -> str | None:
        """Returns the address of a layer object, or None if it is not in here."""
        for node in self.layers.values():
            if node.layer is layer:
                return node.address
        return None


def children(layer: Any) -> Iterator[keras.Operation]:
    """Yields the direct sublayers of a layer, each once, inputs left out."""
    for child in sublayers(layer):
        if not isinstance(child, keras.layers.InputLayer):
            yield child


def walk(model: keras.Layer) -> Tree:
    """Finds the address of every layer and weight of a model.

    A layer that hangs in several places is listed once, where it is first met; its
    other paths, and those of all below it, are kept as aliases.
    """
    require_model(model)
    walker = _Walker()
    walker.homes[id(model)] = ""
    walker.visit(model, "")
    for alias, home in list(walker.aliases.items()):
        walker.alias_below(alias, home)
    return Tree(
        model,
        walker.layers,
        walker.weights,
        walker.aliases,
        walker.weight_aliases,
        frozenset(walker.input_layers),
    )


class _Walker:
    """What one walk through a model collects."""

    def __init__(self) -> None:
        self.layers: dict[str, LayerNode] = {}
        self.weights: dict[str, WeightNode] = {}
        self.aliases: dict[str, str] = {}
        self.weight_aliases: dict[str, str] = {}
        self.homes: dict[int, str] = {}
        self.variables: dict[int, str] = {}
        self.input_layers: list[str] = []

    def visit(self, layer: Any, address: str) -> None:
        """Collects what is directly below a layer, then below its children."""
        self._own_weights(layer, address)
        self.input_layers += [
            _join(address, item.name)
            for item in sublayers(layer)
            if isinstance(item, keras.layers.InputLayer)
        ]
        below = list(children(layer))
        for child, name in zip(below, _unique([c.name for c in below]), strict=True):
            full = _join(address, name)
            if id(child) in self.homes:
                self.aliases[full] = self.homes[id(child)]
                continue
            self.homes[id(child)] = full
            self.layers[full] = LayerNode(full, child, address)
            self.visit(child, full)

    def _own_weights(self, layer: Any, address: str) -> None:
        learnable, others = own_variables(layer)
        own = [*learnable, *others]
        names = _unique([variable.name for variable in own])
        for position, (variable, name) in enumerate(zip(own, names, strict=True)):
            full = _join(address, name)
            if id(variable) in self.variables:  # tied: its first owner names it
                self.weight_aliases[full] = self.variables[id(variable)]
                continue
            self.variables[id(variable)] = full
            is_learnable = position < len(learnable)
            self.weights[full] = WeightNode(full, variable, address, is_learnable)

    def alias_below(self, alias: str, home: str) -> None:
        """Gives everything below a shared layer its other name, too."""
        inside = {a: a for a in self.layers} | self.aliases
        for address, target in inside.items():
            if address.startswith(home + "/"):
                self.aliases.setdefault(alias + address[len(home) :], target)
        weights = {a: a for a in self.weights} | self.weight_aliases
        for address, target in weights.items():
            if address.startswith(home + "/"):
                self.weight_aliases.setdefault(alias + address[len(home) :], target)


def _unique(names: list[str]) -> list[str]:
    """Numbers repeated names, `conv`, `conv#2`, around names that look like that."""
    used: set[str] = set()
    unique = []
    for name in names:
        number, candidate = 1, name
        while candidate in used or (number > 1 and candidate in names):
            number += 1
            candidate = f"{name}#{number}"
        used.add(candidate)
        unique.append(candidate)
    return unique


def _join(address: str, name: str) -> str:
    return f"{address}/{name}" if address else name
