"""What a pass could change outside of Keras, and small services."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .._protocol import Sparse, Tensor


def raw_state(layers: Sequence[Any]) -> list[Any]:
    """Returns the raw `tf.Variable`s of layers, which Keras does not protect."""
    return [
        value
        for layer in layers
        for value in vars(layer).values()
        if isinstance(value, tf.Variable)
    ]


@contextlib.contextmanager
def restored(raw: Sequence[Any]) -> Iterator[None]:
    """Gives raw variables their values back."""
    before = [variable.read_value() for variable in raw]
    try:
        yield
    finally:
        for variable, value in zip(raw, before, strict=True):
            variable.assign(value)


def protected(layers: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """Protects what a pass could change outside of Keras's own variables."""
    return restored(raw_state(layers))


def synchronise(model: Any) -> None:
    """Nothing to do: variables always hold their values."""


def chance() -> list[np.ndarray]:
    """Returns nothing: Keras draws from seeds that are variables."""
    return []


def set_chance(states: Sequence[np.ndarray]) -> None:
    """Nothing to do: there is no such state."""
    del states


def dense(gradient: Sparse) -> Tensor:
    """Returns all rows of a sparse gradient."""
    slices = tf.IndexedSlices(
        gradient.values, gradient.indices, tf.constant(gradient.shape, "int64")
    )
    return tf.convert_to_tensor(slices)


def is_eager(tensor: Tensor) -> bool:
    """Whether the tensor has a value now."""
    return not tf.is_symbolic_tensor(tensor)
