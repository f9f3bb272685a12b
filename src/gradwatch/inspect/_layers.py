"""`layers`: the list of a model's addresses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from .._errors import counted
from ..select import walk
from ..show import plain_table


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """A layer: its address, its class, and the addresses of its own weights."""

    address: str
    kind: str
    weights: tuple[str, ...]
    num_params: int
    trainable: bool


@dataclass(eq=False, repr=False)
class Layers(Sequence[str]):
    """Addresses of a model's layers, in order; prints as a table.

    Example:
    >>> import gradwatch as gw, keras
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> list(gw.layers(model))
    ['a']
    >>> gw.layers(model).weights
    ['a/kernel', 'a/bias']
    """

    name: str
    infos: Sequence[LayerInfo]
    _own: Mapping[str, int]

    def __getitem__(self, index: Any) -> Any:
        return [info.address for info in self.infos][index]

    def __len__(self) -> int:
        return len(self.infos)

    @property
    def weights(self) -> list[str]:
        """The addresses of all weights."""
        return [*self._own, *(w for info in self.infos for w in info.weights)]

    def __str__(self) -> str:
        records = [
            [
                info.address,
                info.kind,
                ", ".join(w.rpartition("/")[2] for w in info.weights),
                f"{info.num_params:,}" if info.num_params else "",
                "yes" if info.trainable else "frozen" if info.weights else "",
            ]
            for info in self.infos
        ]
        total = sum(info.num_params for info in self.infos) + sum(self._own.values())
        footer = [f"{counted(len(self.infos), 'layer')}, {total:,} parameters."]
        if self._own:
            footer.append("Weights of the model itself: " + ", ".join(self._own) + ".")
        columns = ["address", "class", "weights", "params", "trainable"]
        title = f"Layers of {self.name!r}"
        return plain_table(columns, records, title=title, footer=footer)

    __repr__ = __str__


def layers(model: keras.Layer) -> Layers:
    """Lists the addresses of a model: its layers at every depth, and their weights.

    Example:
    >>> import gradwatch as gw, keras
    >>> block = keras.Sequential([keras.layers.Dense(4, name="up")], name="block")
    >>> model = keras.Sequential(
    ...     [keras.Input((3,)), block, keras.layers.ReLU(name="r")]
    ... )
    >>> list(gw.layers(model))
    ['block', 'block/up', 'r']

    Args:
        model: A Keras model or layer.

    Returns:
        The addresses as a sequence, which prints as a table.
    """
    tree = walk(model)
    infos = []
    for address, node in tree.layers.items():
        own = [w for w in tree.weights.values() if w.layer == address]
        weights, trains = tuple(w.address for w in own), any(w.trainable for w in own)
        count = sum(math.prod(w.variable.shape) for w in own)
        kind = type(node.layer).__name__
        infos.append(LayerInfo(address, kind, weights, count, trains))
    top = [w for w in tree.weights.values() if not w.layer]
    sizes = {w.address: math.prod(w.variable.shape) for w in top}
    return Layers(model.name, infos, sizes)
