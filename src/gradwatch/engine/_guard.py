"""Restores everything that a pass changes on a model."""

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
from .._shadow import is_shadow
from ..backends import current
from ..select import Tree


@contextlib.contextmanager
def untouched(tree: Tree) -> Iterator[None]:
    """Restores the state that a call changes on layers and in Keras itself.

    Rematerialisation is off inside the block: a recomputed layer would be tapped
    twice, and its tensors belong to a graph that they cannot leave.
    """
    layers: list[Any] = [tree.model, *(n.layer for n in tree.layers.values())]
    before = [_notes(layer) for layer in layers]
    chance = random.getstate()  # First: `keep_global_state` may draw from it.
    restore_global_state = keep_global_state()
    for layer in layers:
        switch_off_remat(layer)
    try:
        with current().restored(current().raw_state(layers)):
            yield
    finally:
        for layer, notes in zip(layers, before, strict=True):
            _restore(layer, notes)
        restore_global_state()
        random.setstate(chance)


def _notes(layer: Any) -> dict[str, Any]:
    """Returns the attributes of a layer, including those that its `call` may set."""
    notes = dict(vars(layer))
    for name in CHANGED_IN_PLACE:
        if name in notes:
            notes[name] = (notes[name], list(notes[name]))
    return notes


def _restore(layer: Any, notes: dict[str, Any]) -> None:
    now = vars(layer)
    # A stand-in belongs to another thread, which may be using the same layer.
    for name in [n for n in now if n not in notes and not is_shadow(now[n])]:
        del now[name]
    for name, value in notes.items():
        if is_shadow(value) or is_shadow(now.get(name)):
            continue
        if name in CHANGED_IN_PLACE:
            value, contents = value
            value.clear()
            (value.update if isinstance(value, set) else value.extend)(contents)
        if name not in now or now[name] is not value:
            now[name] = value


def ensure_built(model: Any, x: Any, mode: bool) -> None:
    """Builds a model that has not seen data yet, as `fit` would.

    Symbolically if possible: nothing is computed and no random stream advances.
    """
    if is_built(model):
        return
    try:
        compute_output_spec(model, specifications(x), training=mode)
    except Exception:  # noqa: BLE001 - `call` may raise anything on symbolic tensors
        # Data-dependent Python in `call` needs numbers.
        seeds = seeds_of(model)
        before = [keras.ops.convert_to_numpy(seed.value) for seed in seeds]
        try:
            model(x, **mode_arguments(model, mode))
        finally:
            for seed, value in zip(seeds, before, strict=True):
                seed.assign(value)


def specifications(structure: Any) -> Any:
    """Returns a structure of tensors as symbolic ones; None for what is no tensor."""

    def symbolic(tensor: Any) -> Any:
        if not keras.ops.is_tensor(tensor):
            return None
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        # With a name, so that no counter of automatic names advances.
        return keras.KerasTensor(tensor.shape, dtype, name="gradwatch")

    return keras.tree.map_structure(symbolic, structure)


def seeds_of(model: Any) -> list[Any]:
    """Returns the variables that hold the random seeds of a model's layers."""
    return [seed for layer in all_layers(model) for seed in seed_variables(layer)]
