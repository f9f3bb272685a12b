"""How every run of the suite is put together: data, model, optimizer, sixty steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import numpy as np
from keras.callbacks import Callback

from ._case import Fault, Train
from ._data import Data, Rng, Task

STEPS = 60
"""Batches in each run."""

Net: TypeAlias = Callable[[Rng, Data], keras.Model]
"""Builds a model that fits the data, its sizes drawn."""
Draws: TypeAlias = Callable[[Rng], Any]
"""Draws an optimizer."""
Prepare: TypeAlias = Callable[[Rng, keras.Model, Data], None]
"""Does something to a model before it is compiled."""

# JAX without it runs each operation by itself, and takes far longer. Elsewhere it
# would take longer than the sixty steps that follow.
JIT = {"jax": True}.get(keras.config.backend(), False)
"""Whether the runs are compiled as a whole."""

_OF_FIT = {"class_weight", "shuffle"}


def near(rng: Rng, value: float) -> float:
    """Returns a number about as large as `value`: two thirds of it to half as much."""
    return float(value * 1.5 ** rng.uniform(-1, 1))


def whole(rng: Rng, span: int | tuple[int, int]) -> int:
    """Returns a whole number from the span, ends included."""
    low, high = (span, span) if isinstance(span, int) else span
    return int(rng.integers(low, high + 1))


def by_rate(kind: str, rate: float, **options: Any) -> Draws:
    """Returns what draws an optimizer of this kind with about this learning rate."""

    def draw(rng: Rng) -> Any:
        return getattr(keras.optimizers, kind)(near(rng, rate), **options)

    return draw


def sgd(rate: float, **options: Any) -> Draws:
    """Returns what draws plain gradient descent."""
    return by_rate("SGD", rate, **options)


def adam(rate: float, **options: Any) -> Draws:
    """Returns what draws Adam."""
    return by_rate("Adam", rate, **options)


def training(
    task: Task,
    net: Net,
    optimizer: Draws,
    *,
    batch: int = 32,
    epochs: int = 3,
    steps: int = STEPS,
    prepare: Prepare | None = None,
    **options: Any,
) -> Train:
    """Returns a run: draws all from the seed, and trains.

    Args:
        task: Draws the data.
        net: Builds the model.
        optimizer: Draws the optimizer.
        batch: Examples in a batch.
        epochs: Passes over the data.
        steps: How many there are in all.
        prepare: Does something to the model before it is compiled.
        **options: Of `compile` or `fit`, in place of the usual ones.
    """
    of_fit = {k: v for k, v in options.items() if k in _OF_FIT}
    of_compile = {k: v for k, v in options.items() if k not in _OF_FIT}

    def train(seed: int, callbacks: list[Callback]) -> keras.Model:
        keras.utils.set_random_seed(seed)
        rng = np.random.default_rng(seed)
        data = task(rng, steps // epochs * batch)
        model = net(rng, data)
        if prepare is not None:
            prepare(rng, model, data)
        settings = {"loss": data.loss, "jit_compile": JIT} | of_compile
        model.compile(optimizer=optimizer(rng), **settings)
        model.fit(
            data.x,
            data.y,
            batch_size=batch,
            epochs=epochs,
            verbose=0,
            callbacks=list(callbacks),
            **({"shuffle": True} | of_fit),
        )
        return model

    return train


def sick(name: str, train: Train, symptoms: str, tolerated: str = "") -> Fault:
    """Returns a family in which something is wrong; symptoms are parted by spaces."""
    known = frozenset(symptoms.split())
    return Fault(name, train, known, frozenset(tolerated.split()) - known)


def healthy(name: str, train: Train) -> Fault:
    """Returns a family in which nothing is wrong."""
    return Fault(name, train)
