"""The rows of a layout by role: kernels, biases, layers, heads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import KINDS, Layout

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
        rows: The rows of each kind in the layout.
        heads: The layers that give an output of the model.
        missing: Weights that are watched and trainable, and have no row.
        layer_order: The layers of the weights, each once, along depth.

    Attributes, with one element for each weight:
        names: The addresses.
        sizes: The number of elements, at least 1.
        layers: The address of the layer.
        layer_numbers: The index of the layer in `layer_order`.
        kernels: Weights that multiply; not embeddings, of which a step uses a few rows.
        plain_kernels: Kernels of layers that no normalisation follows.
        biases: Biases whose gradient is that of their layer's output. Before a
            normalisation it is zero but for rounding: what is added there is taken
            away again.
        rectified: Weights of layers known to end in a ReLU.
        in_float16: Weights of layers that compute in float16.
        stored_in_half: Weights that are stored in half precision.
        marked_frozen: Weights marked as frozen, by themselves or by their layer.
    """

    def __init__(self, layout: Layout, facts: Mapping[str, Any]) -> None:
        self.layout = layout
        self.weight_facts: Mapping[str, Any] = facts.get("weights", {})
        self._layer_facts: Mapping[str, Any] = facts.get("layers", {})
        self.heads: tuple[str, ...] = tuple(facts.get("heads", ()))
        self.softmax_twice = bool(facts.get("softmax_twice"))
        kinds = np.array(layout.kinds)
        self.rows = {kind: np.flatnonzero(kinds == kind) for kind in KINDS}
        self.names = [layout.names[row] for row in self.rows["weight"]]
        sizes = [max(layout.sizes[row], 1) for row in self.rows["weight"]]
        self.sizes = np.array(sizes, float)
        self.layers = [self.layer_of(name) for name in self.names]
        numbers = {layer: at for at, layer in enumerate(dict.fromkeys(self.layers))}
        self.layer_order = tuple(numbers)
        self.layer_numbers = np.array([numbers[layer] for layer in self.layers], int)
        normalised = self._layers_with("normalised")
        shifts = _mask(_role(name) in _SHIFTS for name in self.names)
        shifts &= ~normalised & ~self._layers_with("mixing")
        self.biases = shifts & (self.sizes >= _LEAST)
        self.kernels = _mask(map(self._is_kernel, self.names))
        self.plain_kernels = self.kernels & ~normalised
        self.rectified = self._layers_with("activation", _RECTIFIERS)
        self.in_float16 = self._layers_with("compute", {"float16"})
        known = [self.weight_facts.get(name, {}) for name in self.names]
        self.stored_in_half = _mask(fact.get("dtype") in _HALVES for fact in known)
        self.marked_frozen = _mask(
            fact.get("held") or fact.get("trainable") is False for fact in known
        )
        present = set(self.names)
        self.missing = tuple(
            name
            for name, fact in self.weight_facts.items()
            if fact.get("watched") and fact.get("trainable") and name not in present
        )

    def fact(self, name: str, key: str, default: Any = None) -> Any:
        """Returns a fact about a weight."""
        return self.weight_facts.get(name, {}).get(key, default)

    def layer_of(self, name: str) -> str:
        """Returns the address of the layer of a weight."""
        return str(self.fact(name, "layer", name.rpartition("/")[0]))

    def layer_fact(self, call: str, key: str) -> Any:
        """Returns a fact about a layer, given its address or that of one call."""
        return self._layer_facts.get(call.partition("@")[0], {}).get(key)

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
        moved = [self.fact(n, "moved") is True for n in self.names_of(self.biases)]
        if sum(moved) > len(moved) / 2:
            return False
        facts = [self.fact(name, "untrained") for name in self.names_of(self.kernels)]
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
        names = tuple(name for name, untrained in frozen.items() if untrained)
        return names if 2 * len(names) > len(frozen) else ()

    def names_of(self, chosen: Mask) -> list[str]:
        """Returns the addresses of the chosen weights."""
        return list(compress(self.names, chosen))

    def layers_of(self, chosen: Mask) -> tuple[str, ...]:
        """Returns the layers of the chosen weights, each once."""
        return tuple(dict.fromkeys(compress(self.layers, chosen)))

    def _layers_with(self, key: str, values: Collection[str] = ()) -> Mask:
        facts = [self.layer_fact(layer, key) for layer in self.layers]
        return _mask(fact in values if values else fact for fact in facts)

    def _is_kernel(self, name: str) -> bool:
        shape, role = self.fact(name, "shape"), _role(name)
        if role in _VECTORS:  # those of attention have two axes
            return False
        if shape is None:
            return "kernel" in role
        return len(shape) >= 2 and int(np.prod(shape)) >= _LEAST


def _role(name: str) -> str:
    """Returns the name of a weight within its layer, such as kernel or bias."""
    return name.rpartition("/")[2].partition("#")[0]


def _mask(flags: Iterable[Any]) -> Mask:
    return np.array([bool(flag) for flag in flags], bool)
