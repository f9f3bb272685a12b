"""Leaves the model alone: whatever a pass changes is put back."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import keras
from keras.src.backend import compute_output_spec
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import global_seed_generator

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
    counters = dict(global_state.get_global_attribute(_NAMES, {}))
    deferred = global_state.get_global_attribute(_DEFERRED)
    chance = random.getstate()
    seeded = global_state.get_global_attribute(_SEEDS)
    if seeded is None:
        # Keras makes it on first use: inside the pass it would never get a value.
        global_seed_generator()
    for layer in layers:
        layer.__dict__["_remat_mode"] = None
    try:
        with current().protected(layers):
            yield
    finally:
        for layer, notes in zip(layers, before, strict=True):
            _restore(layer, notes)
        # Symbolic tensors take automatic names, and would shift those of the user.
        names = global_state.get_global_attribute(_NAMES, {})
        names.clear()
        names.update(counters)
        if (
            deferred is None
            and global_state.get_global_attribute(_DEFERRED) is not None
        ):
            delattr(global_state.GLOBAL_STATE_TRACKER, _DEFERRED)
        if seeded is None:
            delattr(global_state.GLOBAL_STATE_TRACKER, _SEEDS)
        random.setstate(chance)


_NAMES = "object_name_uids"
_DEFERRED = "uninitialized_variables"
_SEEDS = "global_seed_generator"

# Changed in place by Keras, so that keeping the object is not enough.
_CHANGED_IN_PLACE = ("_losses", "_losses_override", "_loss_ids", "_tracked")
# Another thread may have a session of its own on the same layer.
_SHADOWED = ("call", "quantized_call")


def _notes(layer: Any) -> dict[str, Any]:
    """Returns all attributes of a layer: also what its own `call` may set on it."""
    kept = dict(layer.__dict__)
    for name in _CHANGED_IN_PLACE:
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
        if name in _CHANGED_IN_PLACE:
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
    if all(layer.built for layer in model._flatten_layers()):
        return
    specs = specifications(x)
    try:
        compute_output_spec(model, specs, training=mode)
    except Exception:  # noqa: BLE001 - whatever `call` raises on shapes
        # Data-dependent Python in `call` cannot run on shapes; numbers it can.
        with untouched_seeds(model):
            model(x, training=mode) if model._call_has_training_arg else model(x)


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
    layers = model._flatten_layers()
    return [maker.state for layer in layers for maker in layer._seed_generators]


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
