"""The rows of a layout by role: kernels, biases, layers, heads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import Layout

Mask = NDArray[np.bool_]

_SHIFTS = {"bias", "beta"}
_VECTORS = {"bias", "beta", "gamma", "embeddings"}
_HALVES = {"float16", "bfloat16"}
_RECTIFIERS = {"relu", "relu6"}
_LEAST = 8
"""Minimum number of elements of a tensor that says something about its layer."""


class ParameterIndex:
    """The rows of one layout, told apart by what is known of the model.

    Without the facts that a monitor notes, names alone decide.

    Args:
        layout: The layout of the records.
        facts: The note "model" of the run; empty if there is none.

    Attributes:
        names: The addresses of the weights; masks and arrays below are in this order.
        sizes: The number of elements of each weight.
        weights: The rows of the weights in the layout.
        activations: The rows of the values of activations.
        activation_gradients: The rows of the gradients of activations.
        layers: The address of the layer of each weight.
        heads: The layers that give an output of the model.
    """

    def __init__(self, layout: Layout, facts: Mapping[str, Any]) -> None:
        self.layout = layout
        self.weight_facts: Mapping[str, Any] = facts.get("weights", {})
        self._layer_facts: Mapping[str, Any] = facts.get("layers", {})
        self.heads: tuple[str, ...] = tuple(facts.get("heads", ()))
        self.softmax_twice = bool(facts.get("softmax_twice"))
        kinds = np.array(layout.kinds)
        self.weights = np.flatnonzero(kinds == "weight")
        self.activation_gradients = np.flatnonzero(kinds == "activation")
        self.activations = np.flatnonzero(kinds == "value")
        self.names = [layout.names[row] for row in self.weights]
        self.sizes = np.array([layout.sizes[row] for row in self.weights], float)
        self.layers = [self.layer_of(name) for name in self.names]

    # one weight, one layer ------------------------------------------------------------

    def fact(self, name: str, key: str, default: Any = None) -> Any:
        """Returns a fact about a weight."""
        return self.weight_facts.get(name, {}).get(key, default)

    def layer_of(self, name: str) -> str:
        """Returns the address of the layer of a weight."""
        return str(self.fact(name, "layer", name.rpartition("/")[0]))

    def layer_fact(self, call: str, key: str) -> Any:
        """Returns a fact about a layer, given its address or that of one call."""
        return self._layer_facts.get(call.partition("@")[0], {}).get(key)

    def role(self, name: str) -> str:
        """Returns the name of a weight within its layer, such as kernel or bias."""
        return name.rpartition("/")[2].partition("#")[0]

    # all weights ----------------------------------------------------------------------

    @cached_property
    def layer_order(self) -> tuple[str, ...]:
        """The layers of the weights, each once, along depth."""
        return tuple(dict.fromkeys(self.layers))

    @cached_property
    def layer_numbers(self) -> NDArray[np.int64]:
        """The index in `layer_order` of the layer of each weight."""
        numbers = {layer: number for number, layer in enumerate(self.layer_order)}
        return np.array([numbers[layer] for layer in self.layers], np.int64)

    @cached_property
    def kernels(self) -> Mask:
        """Weights that multiply; not embeddings, of which a step uses a few rows."""
        return _mask(self._is_kernel(name) for name in self.names)

    @cached_property
    def biases(self) -> Mask:
        """Biases whose gradient is that of their layer's output.

        Before a normalisation it is zero but for rounding: what is added there is
        taken away again.
        """
        shifts = _mask(self.role(name) in _SHIFTS for name in self.names)
        usable = ~self._layers_with("normalised") & ~self._layers_with("mixing")
        return shifts & usable & (self.sizes >= _LEAST)

    @cached_property
    def plain_kernels(self) -> Mask:
        """Kernels of layers that no normalisation follows."""
        return self.kernels & ~self._layers_with("normalised")

    @cached_property
    def rectified(self) -> Mask:
        """Weights of layers known to end in a ReLU."""
        return self._layers_with("activation", _RECTIFIERS)

    @cached_property
    def in_float16(self) -> Mask:
        """Weights of layers that compute in float16."""
        return self._layers_with("compute", {"float16"})

    @cached_property
    def stored_in_half(self) -> Mask:
        """Weights that are stored in half precision."""
        return _mask(self.fact(name, "dtype") in _HALVES for name in self.names)

    @cached_property
    def marked_frozen(self) -> Mask:
        """Weights marked as frozen, by themselves or by their layer."""
        return _mask(
            self.fact(name, "held") or self.fact(name, "trainable") is False
            for name in self.names
        )

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Weights that are watched and trainable, and have no row."""
        present = set(self.names)
        return tuple(
            name
            for name, fact in self.weight_facts.items()
            if fact.get("watched") and fact.get("trainable") and name not in present
        )

    @cached_property
    def head_kernels(self) -> dict[str, NDArray[np.int64]]:
        """The kernels of each layer that gives an output, where it has any."""
        kernels = {}
        for head in self.heads:
            own = _mask(f"{layer}/".startswith(f"{head}/") for layer in self.layers)
            kernels[head] = np.flatnonzero(own & self.kernels)
        return {head: rows for head, rows in kernels.items() if len(rows)}

    @cached_property
    def starts_untrained(self) -> bool:
        """True if training began at random weights, as far as is known.

        Kernels that have learnt little still look random; biases that began at zero
        no longer do.
        """
        biases = self._chosen(self.biases)
        if sum(self.fact(name, "moved") is True for name in biases) > len(biases) / 2:
            return False
        facts = [self.fact(name, "untrained") for name in self._chosen(self.kernels)]
        known = [fact for fact in facts if fact is not None]
        return bool(known) and sum(known) >= len(known) / 2

    @cached_property
    def frozen_untrained(self) -> tuple[str, ...]:
        """Weights that do not train, and are as their initialiser makes them.

        A small kernel may look like that after a training, too: most of them must.
        """
        frozen = {
            name: bool(fact["untrained"])
            for name, fact in self.weight_facts.items()
            if fact.get("trainable") is False and fact.get("untrained") is not None
        }
        if 2 * sum(frozen.values()) <= len(frozen):
            return ()
        return tuple(name for name, untrained in frozen.items() if untrained)

    def layers_of(self, chosen: Mask) -> tuple[str, ...]:
        """Returns the layers of the chosen weights, each once."""
        return tuple(dict.fromkeys(self.layers[row] for row in np.flatnonzero(chosen)))

    def _chosen(self, mask: Mask) -> list[str]:
        return [self.names[row] for row in np.flatnonzero(mask)]

    def _layers_with(self, key: str, values: Collection[str] = ()) -> Mask:
        facts = [self.layer_fact(layer, key) for layer in self.layers]
        return _mask(fact in values if values else fact for fact in facts)

    def _is_kernel(self, name: str) -> bool:
        shape = self.fact(name, "shape")
        if self.role(name) in _VECTORS:  # those of attention have two axes
            return False
        if shape is None:
            return "kernel" in self.role(name)
        return len(shape) >= 2 and int(np.prod(shape)) >= _LEAST


def _mask(flags: Iterable[Any]) -> Mask:
    return np.array([bool(flag) for flag in flags], bool)
