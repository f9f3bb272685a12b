"""Compares a model, Keras and the random streams before and after a block."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from .._keras import all_layers, global_settings

_OPENED = (
    keras.Operation,
    keras.Optimizer,
    keras.Metric,
    keras.Loss,
    keras.random.SeedGenerator,
)
"""Classes whose attributes are compared one by one; others are compared by identity."""

_SETTINGS = (
    *("floatx", "epsilon", "image_data_format", "is_traceback_filtering_enabled"),
    *("is_interactive_logging_enabled", "is_flash_attention_enabled"),
)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CLASSES = (keras.Operation, keras.Layer, keras.Model, keras.Sequential, keras.Variable)


@contextlib.contextmanager
def assert_untouched(model: keras.Model) -> Iterator[None]:
    """Asserts that a block does not change a model, Keras or random streams.

    It compares the value and the flags of every variable (weights, moving averages,
    seeds, states, metrics, optimizer), every attribute of the model, its layers,
    optimizer, losses and metrics (including methods shadowed on an instance), the
    methods of their classes, Keras's global state and settings, and the random state
    of Python, NumPy and torch. It costs a copy of every variable.

    Example:
    >>> from gradwatch import testing
    >>> model = testing.known().model
    >>> with testing.assert_untouched(model):
    ...     model.layers[0].trainable = False
    Traceback (most recent call last):
    AssertionError: `model...trainable` was True and is False.

    Args:
        model: A built model; the first use of an unbuilt model does change it.

    Raises:
        AssertionError: If something changed; the message names the first change. Not
            raised if the block itself raises: its own error propagates.
    """
    before = _snapshot(model)
    yield
    difference = _first_difference(before, _snapshot(model))
    if difference:
        raise AssertionError(difference)


def _snapshot(model: keras.Model) -> dict[str, Any]:
    """Returns everything to compare, by a readable path."""
    snapshot = _ModelState()
    # First: Keras creates the dtype policy in its global state when it is read.
    settings: dict[str, Any] = {"dtype_policy": keras.config.dtype_policy().name}
    settings |= {name: getattr(keras.config, name)() for name in _SETTINGS}
    snapshot.add("model", model)
    snapshot.add_classes(model)
    for name, state in global_settings().items():
        snapshot.add(name, _nonempty(state))
    snapshot.add("keras.config", settings)
    snapshot.add("random streams", _random_streams())
    return snapshot.facts


def _identity(item: Any) -> tuple[Any, ...]:
    """Compares by identity, shows it, and keeps the object: a freed id is reused."""
    # Of two different objects the ids differ, and a tuple looks no further.
    return id(item), f"<{type(item).__name__} at {id(item):#x}>", item


class _ModelState:
    """Walks over the parts of a model, and adds each fact once."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        # The objects are kept, too: the id of a freed one could be reused.
        self._known: dict[int, Any] = {}

    def add(self, path: str, item: Any) -> None:
        """Adds an object and its parts, depth first."""
        todo = [(path, item)]
        while todo:
            todo += reversed([*self._parts(*todo.pop())])

    def _parts(self, path: str, item: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(item, _PLAIN):
            self.facts[path] = item
            return
        if isinstance(item, np.ndarray):
            self.facts[path] = _array(item)
            return
        plain = not isinstance(item, list | tuple | dict | set | Mapping)
        if plain:
            self.facts[path] = _identity(item)
        if id(item) in self._known:
            return
        self._known[id(item)] = item
        if isinstance(item, keras.Variable):
            self.facts.update(_of_variable(path, item))
        elif isinstance(item, _OPENED):
            # Public attributes first, so that messages show the public path.
            for name in sorted(vars(item), key=lambda name: name.startswith("_")):
                yield f"{path}.{name}", vars(item)[name]
        elif isinstance(item, Mapping):
            for key, value in item.items():
                yield f"{path}[{key!r}]", value
        elif isinstance(item, list | tuple):
            self.facts[f"length of {path}"] = len(item)
            for index, value in enumerate(item):
                yield f"{path}[{index}]", value
        elif isinstance(item, set):
            self.facts[path] = {id(part) for part in item}

    def add_classes(self, model: keras.Model) -> None:
        """Adds the methods of Keras's classes and of the classes of the layers."""
        classes = {type(layer) for layer in all_layers(model)} | set(_CLASSES)
        for cls in sorted(classes, key=lambda c: (c.__module__, c.__qualname__)):
            for name, value in vars(cls).items():
                if callable(value) or isinstance(value, property | classmethod):
                    path = f"{cls.__name__}.{name} ({cls.__module__})"
                    self.facts[path] = _identity(value)


def _of_variable(path: str, variable: keras.Variable) -> Iterator[tuple[str, Any]]:
    value: Any = "no value"  # Inside `fit`, JAX keeps it elsewhere.
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        value = _array(np.asarray(keras.ops.convert_to_numpy(variable)))
    yield f"value of {path} ({variable.path})", value
    yield f"{path}.trainable", variable.trainable
    yield f"{path}.regularizer", _identity(variable.regularizer)
    # torch only: whether it is part of graphs, and what `backward` left on it.
    native = getattr(variable, "_value", None)
    yield f"{path}.value.requires_grad", getattr(native, "requires_grad", None)
    if getattr(native, "is_leaf", False):
        left: Any = getattr(native, "grad", None)
        if left is not None:
            left = _array(np.asarray(keras.ops.convert_to_numpy(left)))
        yield f"{path}.value.grad", left


def _array(value: np.ndarray) -> tuple[Any, ...]:
    # As bytes, NaN is equal to itself, and 0.0 is not equal to -0.0.
    shown = np.array2string(value, threshold=6)
    return value.tobytes(), shown, value.shape, str(value.dtype)


def _nonempty(state: Mapping[str, Any]) -> dict[str, Any]:
    """Drops empty values: Keras does not distinguish them from absent ones."""
    return {
        name: value
        for name, value in state.items()
        if value is not None and not (isinstance(value, list | dict) and not value)
    }


def _random_streams() -> dict[str, Any]:
    numpy_state: Any = np.random.get_state(legacy=False)
    streams = {"random": random.getstate(), "numpy": numpy_state["state"]}
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        streams["torch"] = np.asarray(torch.get_rng_state())
        streams["torch gradients enabled"] = torch.is_grad_enabled()
    return streams


def _first_difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    for path in before | after:
        if path not in after:
            return f"`{path}` was there and is gone."
        if path not in before:
            return f"`{path}` was not there and now is {_short(after[path])}."
        if before[path] != after[path]:
            return f"`{path}` was {_short(before[path])} and is {_short(after[path])}."
    return ""


def _short(value: Any) -> str:
    text = value[1] if isinstance(value, tuple) else repr(value)
    return text if len(text) < 200 else text[:200] + "…"
