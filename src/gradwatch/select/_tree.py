"""The addresses of a model's layers and weights.

Neither `variable.name` nor `variable.path` nor `layer.name` is unique in Keras 3.
Addresses are unique: an address is the path of layer names below the model, with `#2`
after the name of a second sibling of the same name. It depends only on the model, so it
is the same on every backend.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import keras

from .._errors import GradwatchError
from .._keras import own_variables, sublayers


def require_model(model: object) -> None:
    """Raises if an object is not a Keras 3 model or layer."""
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
    """A variable and its address.

    `learnable` is True for weights such as kernels, and False for moving averages.
    """

    address: str
    variable: keras.Variable
    layer: str
    learnable: bool

    @property
    def trainable(self) -> bool:
        """True if `fit` would change the weight now."""
        return self.learnable and bool(self.variable.trainable)


@dataclass(frozen=True, slots=True)
class Tree:
    """All addresses of one model, in depth-first order of creation.

    Attributes:
        model: The model.
        layers: Its layers by address.
        weights: Its weights by address.
        aliases: Other paths to layers that occur more than once.
        weight_aliases: Other names of weights of shared layers, and of tied variables.
        input_layers: Names of its `InputLayer`s, which have no address.
    """

    model: keras.Layer
    layers: dict[str, LayerNode] = field(default_factory=dict)
    weights: dict[str, WeightNode] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    weight_aliases: dict[str, str] = field(default_factory=dict)
    input_layers: set[str] = field(default_factory=set)

    @property
    def learnable(self) -> dict[str, WeightNode]:
        """The weights but moving averages and the like."""
        return {name: node for name, node in self.weights.items() if node.learnable}


def walk(model: keras.Layer) -> Tree:
    """Finds the addresses of all layers and weights of a model.

    A layer that occurs more than once is listed where it is met first; its other
    paths, and those of everything below it, become aliases.
    """
    require_model(model)
    tree = Tree(model)
    _visit(model, "", tree, {id(model): ""})
    for alias, home in list(tree.aliases.items()):
        _alias_below(alias, home, tree.aliases, tree.layers)
        _alias_below(alias, home, tree.weight_aliases, tree.weights)
    return tree


def _visit(layer: Any, address: str, tree: Tree, seen: dict[int, str]) -> None:
    """Adds a layer's own weights and its sublayers; `seen` maps ids to addresses."""
    learnable, others = own_variables(layer)
    own = [*learnable, *others]
    for index, name in enumerate(_unique([variable.name for variable in own])):
        full, variable = _join(address, name), own[index]
        if id(variable) in seen:  # A tied variable is named by its first owner.
            tree.weight_aliases[full] = seen[id(variable)]
            continue
        seen[id(variable)] = full
        tree.weights[full] = WeightNode(full, variable, address, index < len(learnable))
    below = []
    for child in sublayers(layer):
        if isinstance(child, keras.layers.InputLayer):
            tree.input_layers.add(_join(address, child.name))
        else:
            below.append(child)
    for child, name in zip(below, _unique([c.name for c in below]), strict=True):
        full = _join(address, name)
        if id(child) in seen:
            tree.aliases[full] = seen[id(child)]
            continue
        seen[id(child)] = full
        tree.layers[full] = LayerNode(full, child, address)
        _visit(child, full, tree, seen)


def _alias_below(
    alias: str, home: str, aliases: dict[str, str], nodes: Iterable[str]
) -> None:
    """Adds the other names of everything below a shared layer."""
    for address, target in ({a: a for a in nodes} | aliases).items():
        if address.startswith(home + "/"):
            aliases.setdefault(alias + address[len(home) :], target)


def _unique(names: list[str]) -> list[str]:
    """Numbers repeated names as `conv`, `conv#2`, and avoids names already taken."""
    unique: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}#{number}" for number in itertools.count(2))
        candidates = itertools.chain([name], (n for n in numbered if n not in names))
        unique[next(n for n in candidates if n not in unique)] = None
    return list(unique)


def _join(address: str, name: str) -> str:
    return f"{address}/{name}" if address else name
