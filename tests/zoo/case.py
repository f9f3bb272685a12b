"""A case: one small model of one kind, with data that fits it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import numpy as np

Built: TypeAlias = tuple[keras.Model, Any, Any]
"""A model, one batch of inputs, its labels."""

BATCH = 3
"""Examples in every batch: unlike every other size, so that a mixed-up axis shows."""


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of model. `build()` makes a fresh one: the model, `x` and `y`.

    Example:
    >>> from tests.zoo import zoo
    >>> case = zoo()["mlp"]
    >>> model, x, y = case.build()
    >>> model.name, x.shape, y.shape
    ('mlp', (3, 5), (3,))

    Attributes:
        name: The key in `zoo()`, and the name of the model.
        build: Makes the model, compiled, and one batch of NumPy arrays.
        notes: What is special about this kind.
        tags: `"random"`: training draws random numbers. `"half"`: computes in half
            precision. `"unbuilt"`: has no weights before its first use. `"stateful"`:
            remembers the last batch. `"large"`: not small.
    """

    name: str
    build: Callable[[], Built]
    notes: str = ""
    tags: frozenset[str] = frozenset()


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Returns a batch of normally distributed numbers, the same on every machine."""
    return np.random.default_rng(seed).normal(size=(BATCH, *shape))


def whole_numbers(below: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Returns a batch of whole numbers: classes, or tokens."""
    drawn = np.random.default_rng(seed).integers(below, size=(BATCH, *shape))
    return drawn.astype("int32")


def compiled(model: keras.Model, **options: Any) -> keras.Model:
    """Compiles with plain gradient descent, and mean squared error unless told."""
    settings = {"optimizer": keras.optimizers.SGD(1.0), "loss": "mse"} | options
    model.compile(**settings)
    return model


def from_logits() -> keras.Loss:
    """Returns the usual loss of a classifier."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
