"""Who is who among the lines of a record: kernels, biases, layers, heads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import Layout

Facts = Mapping[str, Any]
"""What the monitor noted of the model: its weights and layers by address."""

_SHIFTS = {"bias", "beta"}
_VECTORS = {"bias", "beta", "gamma", "embeddings"}
_HALVES = {"float16", "bfloat16"}
_RECTIFIERS = {"relu", "relu6"}
_LEAST = 8
"""A tensor with fewer numbers says little about its layer."""


class Chart:
    """The lines of one layout, told apart by what is known of the model.

    Without the facts of a monitor, names alone decide.

    Args:
        layout: Of the records.
        facts: The note "model" of the run, or nothing.
    """

    def __init__(self, layout: Layout, facts: Facts) -> None:
        self.layout = layout
        self.known = bool(facts.get("weights"))
        self._weights: Facts = facts.get("weights", {})
        self._layers: Facts = facts.get("layers", {})
        self.heads: tuple[str, ...] = tuple(facts.get("heads", ()))
        self.softmax_twice = bool(facts.get("softmax_twice"))
        kinds = np.array(layout.kinds)
        self.weights = np.flatnonzero(kinds == "weight")
        self.flows = np.flatnonzero(kinds == "activation")
        self.values = np.flatnonzero(kinds == "value")
        self.names = [layout.names[line] for line in self.weights]
        """Of the weights; all below counts weights in this order."""
        self.sizes = np.array([layout.sizes[line] for line in self.weights], float)

    # one weight -----------------------------------------------------------------------

    def fact(self, name: str, what: str, default: Any = None) -> Any:
        """Returns what is known of a weight."""
        return self._weights.get(name, {}).get(what, default)

    def layer_of(self, name: str) -> str:
        """Returns the address of the layer of a weight."""
        found: str = self.fact(name, "layer", name.rpartition("/")[0])
        return found

    def of_layer(self, address: str, what: str, default: Any = None) -> Any:
        """Returns what is known of a layer."""
        return self._layers.get(address, {}).get(what, default)

    def role(self, name: str) -> str:
        """Returns the own name of a weight, such as kernel or bias."""
        return name.rpartition("/")[2].partition("#")[0]

    # all weights ----------------------------------------------------------------------

    @cached_property
    def layers(self) -> list[str]:
        """The layer of each weight."""
        return [self.layer_of(name) for name in self.names]

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """The number of the layer of each weight, along depth."""
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(layer, len(numbers)) for layer in self.layers]
        return np.array(found, np.int64)

    @cached_property
    def kernels(self) -> NDArray[np.bool_]:
        """Weights that multiply; not embeddings, of which a step uses a few rows."""
        return self._is(self._is_kernel)

    @cached_property
    def shifts(self) -> NDArray[np.bool_]:
        """Biases whose gradient is that of their layer's output.

        Before a normalisation it is zero but for rounding: what is added there is
        taken away again.
        """
        return self._is(
            lambda name: (
                self.role(name) in _SHIFTS
                and not self.of_layer(self.layer_of(name), "normalised", False)
                and not self.of_layer(self.layer_of(name), "mixing", False)
            )
        ) & (self.sizes >= _LEAST)

    @cached_property
    def rectified(self) -> NDArray[np.bool_]:
        """Weights of layers that end in a ReLU; where that is not known, of none."""
        return self._is(
            lambda name: self.activation(self.layer_of(name)) in _RECTIFIERS
        )

    @cached_property
    def plain(self) -> NDArray[np.bool_]:
        """Kernels of layers that no normalisation follows."""
        return self.kernels & ~self._is(
            lambda name: bool(self.of_layer(self.layer_of(name), "normalised", False))
        )

    @cached_property
    def half(self) -> NDArray[np.bool_]:
        """Weights of layers that compute in float16."""
        return self._is(
            lambda name: self.of_layer(self.layer_of(name), "compute") == "float16"
        )

    @cached_property
    def narrow(self) -> NDArray[np.bool_]:
        """Weights that are kept in half precision."""
        return self._is(lambda name: self.fact(name, "dtype") in _HALVES)

    @cached_property
    def marked(self) -> NDArray[np.bool_]:
        """Weights that are marked as frozen, by themselves or by their layer."""
        return self._is(
            lambda name: (
                self.fact(name, "held", False)
                or self.fact(name, "trainable", True) is False
            )
        )

    @cached_property
    def absent(self) -> tuple[str, ...]:
        """Weights that should have a line and have none."""
        there = set(self.names)
        return tuple(name for name in self.expected if name not in there)

    def activation(self, layer: str) -> str | None:
        """Returns the name of the function that a layer ends in."""
        found: str | None = self.of_layer(layer, "activation")
        return found

    def own_activation(self, layer: str) -> str | None:
        """Returns the function whose values the layer itself gives out."""
        found: str | None = self.of_layer(layer, "own_activation")
        return found

    @cached_property
    def expected(self) -> tuple[str, ...]:
        """The weights that should have a line: watched, and trainable."""
        return tuple(
            name
            for name, fact in self._weights.items()
            if fact.get("watched") and fact.get("trainable")
        )

    @cached_property
    def head_weights(self) -> frozenset[str]:
        """The weights of layers that give an output of the model."""
        heads = set(self.heads)
        pairs = zip(self.names, self.layers, strict=True)
        return frozenset(name for name, layer in pairs if layer in heads)

    @cached_property
    def head_kernels(self) -> dict[str, NDArray[np.int64]]:
        """The kernels of each layer that gives an output."""
        found = {}
        for head in self.heads:
            mine = [
                layer == head or layer.startswith(f"{head}/") for layer in self.layers
            ]
            lines = np.flatnonzero(np.array(mine, bool) & self.kernels)
            if len(lines):
                found[head] = lines
        return found

    @cached_property
    def fresh(self) -> bool:
        """Whether training began at random weights, as far as is known.

        Kernels that have learnt little still look random; biases that began at zero
        are there no more.
        """
        shifts = [n for n, shift in zip(self.names, self.shifts, strict=True) if shift]
        moved = sum(self.fact(name, "moved") is True for name in shifts)
        if moved > len(shifts) / 2:
            return False
        chosen = [
            n for n, kernel in zip(self.names, self.kernels, strict=True) if kernel
        ]
        told = [self.fact(name, "untrained") for name in chosen]
        known = [t for t in told if t is not None]
        return bool(known) and sum(known) >= len(known) / 2

    @cached_property
    def frozen_at_random(self) -> tuple[str, ...]:
        """Weights that do not train, and are as their initialiser makes them.

        A small kernel may look so after a training, too: most of them must.
        """
        frozen = {
            name: bool(fact["untrained"])
            for name, fact in self._weights.items()
            if fact.get("trainable") is False and fact.get("untrained") is not None
        }
        if 2 * sum(frozen.values()) <= len(frozen):
            return ()
        return tuple(name for name, untrained in frozen.items() if untrained)

    def layers_of(self, chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        """Returns the layers of the chosen weights, each once."""
        return tuple(
            dict.fromkeys(self.layers[line] for line in np.flatnonzero(chosen))
        )

    def _is(self, condition: Any) -> NDArray[np.bool_]:
        return np.array([bool(condition(name)) for name in self.names], bool)

    def _is_kernel(self, name: str) -> bool:
        shape = self.fact(name, "shape")
        if self.role(name) in _VECTORS:  # those of attention have two axes
            return False
        if shape is None:
            return "kernel" in self.role(name)
        return len(shape) >= 2 and int(np.prod(shape)) >= _LEAST
