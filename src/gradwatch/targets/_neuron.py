"""One number in the output of a layer, as a target."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from .._errors import arg, counted
from ..select import Activations, at_layer
from ._target import (
    Setting,
    Target,
    Tensor,
    in_full_precision,
    require,
    require_inside,
    weakly,
    whole_index,
)


@dataclass(frozen=True, eq=False)
class Neuron(Target):
    """The target that `gradwatch.neuron` returns."""

    layer: Activations
    index: tuple[int, ...]

    @property
    def reads(self) -> tuple[Activations, ...]:
        """The layer of the neuron."""
        return (self.layer,)

    def key(self) -> Hashable:
        """Returns a key that identifies the neuron, without keeping a layer alive."""
        return ("neuron", weakly(self.layer.pattern), self.layer.at, self.index)

    def scores(self, setting: Setting) -> Tensor:
        """Computes the neuron of each example."""
        tensors = list(setting.read.values())
        rule = f"{arg('layer')} must give one tensor, in one call, of floats."
        received = f"{self._where}, with {counted(len(tensors), 'tensor')} to be read"
        way_out = "'layer@1' is its first call, 'layer[0]' its first tensor; a layer "
        way_out += "in a compiled loop or branch is read at the layer around it."
        require(len(tensors) == 1, rule, received, way_out)
        chosen = tensors[0]
        require_inside(self.index, tuple(chosen.shape), self._where, whole=True)
        rule = f"{arg('layer')} must give one row per example."
        size, shape = setting.batch_size, tuple(chosen.shape)
        received = f"{self._where}, of shape {shape} for a batch of {size}"
        require(shape[0] == size, rule, received)
        return in_full_precision(chosen[(slice(None), *self.index)])

    @property
    def _where(self) -> str:
        pattern: Any = self.layer.pattern
        name = str(getattr(pattern, "name", pattern))
        return name if self.layer.at == "output" else f"the input of {name}"

    def __str__(self) -> str:
        index = self.index[0] if len(self.index) == 1 else self.index
        return f"neuron {index} of {self._where}"


def neuron(layer: Any, index: int | tuple[int, ...]) -> Target:
    """Returns one number of a layer's output as a target, summed over the examples.

    All functions that take a target take a neuron: `saliency` shows which inputs drive
    it, `integrated_gradients` how much each input contributes to it.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> layers = [keras.layers.Dense(4, name="a"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> a = gw.saliency(model, np.ones((5, 3)), gw.neuron("a", 2), absolute=False)
    >>> a.target, a.values.shape
    ('neuron 2 of a', (5, 3))

    Args:
        layer: The layer of the neuron: an address, or anything that `activations`
            takes, including `activations(…, at="input")`. It must select one tensor:
            `conv@2` is the second call of a shared layer, `lstm[1]` one tensor of a
            structure.
        index: Position of the neuron in the output of the layer: one number for each
            axis, without the batch axis.

    Returns:
        A target.

    Raises:
        TargetError: If the index is not made of whole numbers. Its range is checked
            when the model runs.
    """
    return Neuron(at_layer(layer, "of the neuron"), whole_index(index))
