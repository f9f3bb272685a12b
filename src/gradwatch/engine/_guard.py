"""Leaves the model alone: whatever a pass changes is put back."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import keras

from .._keras import (
    CHANGED_IN_PLACE,
    all_layers,
    compute_output_spec,
    is_built,
    keep_global_state,
    mode_arguments,
    seed_variables,
    switch_off_remat,
)
from ..backends import current
from ..select import Tree


@contextlib.contextmanager
def untouched(tree: Tree) -> Iterator[None]:
    """Puts back what Keras notes on layers during a call, whatever happens.

    Rematerialisation is off meanwhile: a recomputed layer would be tapped twice, and
    its tensors belong to a graph that cannot be left.
    """
    layers: list[Any] = [tree.model, *(n.layer for n in tree.layers.values())]
    before = [_notes(layer) for layer in layers]
    chance = random.getstate()  # first: what Keras creates below draws from it
    restore_global_state = keep_global_state()
    for layer in layers:
        switch_off_remat(layer)
    try:
        with current().protected(layers):
            yield
    finally:
        for layer, notes in zip(layers, before, strict=True):
            _restore(layer, notes)
        restore_global_state()
        random.setstate(chance)


# Another thread may have a session of its own on the same layer.
_SHADOWED = ("call", "quantized_call")


def _notes(layer: Any) -> dict[str, Any]:
    """Returns all attributes of a layer: also what its own `call` may set on it."""
    kept = dict(layer.__dict__)
    for name in CHANGED_IN_PLACE:
        if name in kept:
            kept[name] = (kept[name], list(kept[name]))
    return kept


def _restore(layer: Any, notes: dict[str, Any]) -> None:
    now = layer.__dict__
    for name in [n for n in now if n not in notes and n not in _SHADOWED]:
        del now[name]
    for name, value in notes.items():
        if name in _SHADOWED:
            continue
        if name in CHANGED_IN_PLACE:
            value, contents = value
            value.clear()
            (value.update if isinstance(value, set) else value.extend)(contents)
        if now.get(name, _NOWHERE) is not value:
            now[name] = value


_NOWHERE = object()


def ensure_built(model: Any, x: Any, mode: bool) -> None:
    """Builds a model that has not seen data yet, as `fit` would.

    Symbolically first: nothing is computed and no random stream moves.
    """
    if is_built(model):
        return
    specs = specifications(x)
    try:
        compute_output_spec(model, specs, training=mode)
    except Exception:  # noqa: BLE001 - whatever `call` raises on shapes
        # Data-dependent Python in `call` cannot run on shapes; numbers it can.
        with untouched_seeds(model):
            model(x, **mode_arguments(model, mode))


def specifications(structure: Any) -> Any:
    """Returns the symbolic tensors that stand for a structure of tensors."""

    def symbolic(tensor: Any) -> Any:
        if tensor is None:
            return None
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        # Named, so that no counter of automatic names moves.
        return keras.KerasTensor(tensor.shape, dtype, name="gradwatch")

    return keras.tree.map_structure(symbolic, structure)


def seeds_of(model: Any) -> list[Any]:
    """Returns the variables that hold the random seeds of a model's layers."""
    return [seed for layer in all_layers(model) for seed in seed_variables(layer)]


@contextlib.contextmanager
def untouched_seeds(model: Any) -> Iterator[None]:
    """Puts the random seeds of a model's layers back."""
    seeds = seeds_of(model)
    before = [keras.ops.convert_to_numpy(seed.value) for seed in seeds]
    try:
        yield
    finally:
        for seed, value in zip(seeds, before, strict=True):
            seed.assign(value)
