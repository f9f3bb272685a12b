"""One neuron as a target: a number that a layer gives."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import keras

from .._errors import TargetError, counted
from ..select import Activations, activations
from ..targets import Setting, Target
from ._checked import require_layer
from ._problem import Problem


@dataclass(frozen=True, eq=False)
class Unit(Target):
    """The number at a place of a layer's output, in the pass that taps the layer."""

    layer: str
    index: tuple[int, ...]
    argument: str = "neuron"
    """What the caller calls it."""

    def key(self) -> Hashable:
        """Tells one neuron from another; the layer is part of what is tapped."""
        return ("unit", self.layer, self.index)

    def value(self, setting: Setting) -> Any:
        """The sum over the examples."""
        return keras.ops.sum(self.scores(setting))

    def scores(self, setting: Setting) -> Any:
        """The number of each example."""
        tensors = list(setting.tapped.values())
        if len(tensors) != 1:
            raise TargetError(
                "`layer` must give one tensor, in one call. Received: "
                f"{self.layer}, with {counted(len(tensors), 'tensor')}. Name one: "
                "'layer@1' is its first call, 'layer[0]' its first tensor."
            )
        chosen = tensors[0]
        shape = tuple(chosen.shape)
        fits = len(self.index) == len(shape) - 1 and all(
            -size <= i < size for i, size in zip(self.index, shape[1:], strict=True)
        )
        if not fits:
            raise TargetError(
                f"`{self.argument}` must be a place in what the layer gives, without "
                f"the batch axis. Received: {self.index} for {self.layer} of shape "
                f"{shape}."
            )
        for place in self.index:
            chosen = chosen[:, place]
        return keras.ops.cast(chosen, "float32")

    def __str__(self) -> str:
        place = self.index[0] if len(self.index) == 1 else self.index
        return f"neuron {place} of {self.layer}"


def unit(layer: Any, neuron: Any, argument: str) -> Unit:
    """Returns the target that is one neuron.

    Raises:
        TargetError: When the neuron is no place.
    """
    places = neuron if isinstance(neuron, tuple | list) else (neuron,)
    try:
        if any(isinstance(place, bool) for place in places):
            raise TypeError
        index = tuple(operator.index(place) for place in places)
    except TypeError:
        raise TargetError(
            f"`{argument}` must be the place of a neuron: whole numbers, one for each "
            f"axis without the batch axis. Received: {neuron!r}."
        ) from None
    return Unit(layer if isinstance(layer, str) else str(layer), index, argument)


def of_neuron(
    model: Any,
    x: Any,
    neuron: Any,
    layer: Any,
    batch_size: int | None,
    argument: str = "target",
) -> Problem:
    """Returns the problem at the inputs whose target is one neuron."""
    require_layer(layer)
    chosen = layer if isinstance(layer, Activations) else activations(layer)
    target = unit(layer, neuron, argument)
    return Problem(model, x, target, batch_size=batch_size, also=[chosen])
