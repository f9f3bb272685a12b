"""A second pass, in which the operations of one layer, or of the loss, are watched."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras

from ..._keras import mode_arguments
from ...backends import current
from ...engine import untouched
from ...select import Tree
from ...targets import Setting, Target, prepared_loss
from ._numbers import dtype_of, floats, is_bad
from ._suspects import Lookout


class _Enough(BaseException):
    """Ends the pass. Keras catches `Exception` to add to its message."""


def watch_layer(tree: Tree, x: Any, layer: Any, *, until_bad: bool) -> Lookout:
    """Runs forward, and watches each operation inside one layer.

    Args:
        tree: The model and its addresses.
        x: The inputs, as tensors.
        layer: The layer; the model itself for what its own `call` does.
        until_bad: Watch only the first call whose result is not finite, and stop
            there; otherwise all calls.

    Returns:
        What was seen; nothing if the layer cannot be watched.
    """
    seen = Lookout()

    def call(inner: Any, scope: Any, *args: Any, **kwargs: Any) -> Any:
        start, chance = dict(scope.state_mapping), current().random_state()
        outputs = inner(*args, **kwargs)
        if _symbolic((args, kwargs)) or (until_bad and not _bad(outputs)):
            return outputs
        after, later = dict(scope.state_mapping), current().random_state()
        # From the same random seeds, so that dropout drops the same.
        _set(scope, start)
        current().set_random_state(chance)
        current().traced(lambda: _tensors(inner(*args, **kwargs)), seen)
        _set(scope, after)
        current().set_random_state(later)
        if until_bad:
            raise _Enough
        return outputs

    with (
        quietly(),
        untouched(tree),
        values_of(tree.model) as scope,
        _shadowed(layer, lambda inner: functools.partial(call, inner, scope)),
    ):
        run(tree.model, x)
    return seen


def watch_target(tree: Tree, parts: dict[str, Any], target: Target) -> Lookout:
    """Runs forward, and watches each operation of the loss."""
    seen = Lookout()
    model: Any = tree.model
    with quietly(), untouched(tree), values_of(model):
        outputs = run(model, parts["x"])
        size = int(keras.tree.flatten(parts["x"])[0].shape[0])
        setting = Setting(
            model, parts["x"], parts["y"], outputs, size, True, parts["arrays"]
        )
        specs = keras.tree.map_structure(_specification, (parts["y"], outputs))
        with prepared_loss(model, target, specs[0], lambda: specs[1]):
            current().traced(lambda: [target.value(setting)], seen)
    return seen


def run(model: Any, x: Any) -> Any:
    """Calls a model as a training step does."""
    return model(x, **mode_arguments(model, True))


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Whatever fails here, the first pass went well: we only know less."""
    with contextlib.suppress(Exception, _Enough):
        yield


@contextlib.contextmanager
def values_of(model: Any) -> Iterator[Any]:
    """Nothing that is assigned inside reaches a variable."""
    values = [(v, keras.ops.copy(v.value)) for v in model.variables]
    with keras.StatelessScope(values, True, False) as scope:
        yield scope


@contextlib.contextmanager
def _shadowed(layer: Any, around: Callable[[Any], Any]) -> Iterator[None]:
    """Puts something around the `call` of one layer, and takes it away."""
    had = layer.__dict__.get("call")
    inner = layer.call
    # Not setattr: Keras and torch would look into it, and track it.
    layer.__dict__["call"] = functools.update_wrapper(around(inner), inner, updated=())
    try:
        yield
    finally:
        if had is None:
            layer.__dict__.pop("call", None)
        else:
            layer.__dict__["call"] = had


def _set(scope: Any, mapping: dict[int, Any]) -> None:
    scope.state_mapping.clear()
    scope.state_mapping.update(mapping)


def _symbolic(structure: Any) -> bool:
    leaves = keras.tree.flatten(structure)
    return any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)


def _tensors(structure: Any) -> list[Any]:
    return [t for t in keras.tree.flatten(structure) if keras.ops.is_tensor(t)]


def _bad(structure: Any) -> bool:
    return any(is_bad(floats(tensor)) for tensor in _tensors(structure))


def _specification(tensor: Any) -> Any:
    if not keras.ops.is_tensor(tensor):
        return None
    # Named, so that no counter of automatic names moves.
    return keras.KerasTensor(tensor.shape, dtype_of(tensor), name="gradwatch")
