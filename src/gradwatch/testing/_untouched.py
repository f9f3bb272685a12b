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
    # First: Keras creates the dtype policy in its global state when it is read.
    settings: dict[str, Any] = {"dtype_policy": keras.config.dtype_policy().name}
    settings |= {name: getattr(keras.config, name)() for name in _SETTINGS}
    states = {name: _nonempty(state) for name, state in global_settings().items()}
    streams = {"random streams": _random_streams()}
    facts = _facts({"model": model, **states, "keras.config": settings, **streams})
    # The methods of Keras's classes and of the classes of the layers.
    classes = {type(layer) for layer in all_layers(model)} | set(_CLASSES)
    for cls in sorted(classes, key=lambda c: (c.__module__, c.__qualname__)):
        for name, value in vars(cls).items():
            if callable(value) or isinstance(value, property | classmethod):
                facts[f"{cls.__name__}.{name} ({cls.__module__})"] = _identity(value)
    return facts


def _identity(item: Any) -> tuple[Any, ...]:
    """Compares by identity, shows it, and keeps the object: a freed id is reused."""
    # Of two different objects the ids differ, and a tuple looks no further.
    return id(item), f"<{type(item).__name__} at {id(item):#x}>", item


def _facts(objects: Mapping[str, Any]) -> dict[str, Any]:
    """Walks over the parts of objects, depth first, and adds each fact once."""
    facts: dict[str, Any] = {}
    # The objects are kept: the id of a freed one could be reused.
    known: dict[int, Any] = {}
    todo = [*objects.items()][::-1]
    while todo:
        path, item = todo.pop()
        if isinstance(item, (*_PLAIN, np.ndarray)):
            facts[path] = _array(item) if isinstance(item, np.ndarray) else item
            continue
        if not isinstance(item, list | tuple | dict | set | Mapping):
            facts[path] = _identity(item)
        if id(item) in known:
            continue
        known[id(item)] = item
        parts: list[tuple[str, Any]] = []
        if isinstance(item, keras.Variable):
            facts.update(_of_variable(path, item))
        elif isinstance(item, _OPENED):
            # Public attributes first, so that messages show the public path.
            names = sorted(vars(item), key=lambda name: name.startswith("_"))
            parts = [(f"{path}.{name}", vars(item)[name]) for name in names]
        elif isinstance(item, Mapping):
            parts = [(f"{path}[{key!r}]", value) for key, value in item.items()]
        elif isinstance(item, list | tuple):
            facts[f"length of {path}"] = len(item)
            parts = [(f"{path}[{index}]", value) for index, value in enumerate(item)]
        elif isinstance(item, set):
            facts[path] = {id(part) for part in item}
        todo += parts[::-1]
    return facts


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
