"""Healthy runs of dense models: activations, widths, batches, losses, tasks."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import layers

from ._data import (
    Data,
    Rng,
    Task,
    binary,
    blobs,
    multi_label,
    regression,
    rings,
    same,
    sparse,
)
from ._fit import adam, healthy, sgd, training
from ._nets import autoencoder, dense_block, head, mlp, residual_mlp


def _highway(rng: Rng, data: Data) -> keras.Model:
    """Gates decide how much of a layer's input passes it by."""
    inputs = keras.Input(data.x.shape[1:])
    width = int(rng.integers(16, 33))
    x = layers.Dense(width, name="stem")(inputs)
    for i in range(3):
        new = layers.Dense(width, activation="tanh", name=f"new_{i}")(x)
        gate = layers.Dense(width, activation="sigmoid", name=f"gate_{i}")(x)
        x = x + gate * (new - x)
    return keras.Model(inputs, head(x, data))


def _crossed(rng: Rng, data: Data) -> keras.Model:
    """Products of features beside a dense tower, as recommenders have them."""
    inputs = keras.Input(data.x.shape[1:])
    x = inputs
    for i in range(2):
        x = inputs * layers.Dense(inputs.shape[-1], name=f"cross_{i}")(x) + x
    deep = dense_block(inputs, int(rng.integers(16, 33)), "relu", "deep")
    return keras.Model(inputs, head(layers.Concatenate(name="join")([x, deep]), data))


def _experts(rng: Rng, data: Data) -> keras.Model:
    """A soft mixture of experts."""
    inputs = keras.Input(data.x.shape[1:])
    width = int(rng.integers(12, 25))
    gate = layers.Dense(3, activation="softmax", name="gate")(inputs)
    made = [dense_block(inputs, width, "relu", f"expert_{i}") for i in range(3)]
    x = sum(gate[:, i : i + 1] * one for i, one in enumerate(made))
    return keras.Model(inputs, head(x, data))


def _with_loss(task: Task, loss: Any) -> Task:
    def draw(rng: Rng, n: int) -> Data:
        return task(rng, n)._replace(loss=loss)

    return draw


def _counts(rng: Rng, n: int) -> Data:
    data = regression(rng, n)
    return data._replace(
        y=rng.poisson(3.0 * (1 + (data.y > 0))).astype("float32"), loss="poisson"
    )


_ACTIVATIONS = tuple(
    healthy(
        f"{activation.replace('_', '-')}-mlp",
        training(blobs, partial(mlp, activation=activation), adam(5e-3)),
    )
    for activation in ("relu", "tanh", "gelu", "selu", "elu", "silu", "leaky_relu")
)

_MODELS = tuple(
    healthy(name, training(task, net, optimizer))
    for name, task, net, optimizer in (
        (
            "shallow-sigmoid-mlp",
            blobs,
            partial(mlp, depth=1, activation="sigmoid"),
            adam(0.02),
        ),
        ("logistic-regression", blobs, partial(mlp, depth=0), sgd(0.2)),
        ("linear-regression", regression, partial(mlp, depth=0), sgd(0.03)),
        (
            "batch-norm-mlp",
            blobs,
            partial(mlp, norm="BatchNormalization"),
            adam(5e-3),
        ),
        (
            "layer-norm-mlp",
            blobs,
            partial(mlp, norm="LayerNormalization"),
            adam(5e-3),
        ),
        ("dropout-mlp", blobs, partial(mlp, dropout=0.2), adam(5e-3)),
        ("deep-relu-mlp", blobs, partial(mlp, depth=(5, 6)), adam(3e-3)),
        ("deep-tanh-mlp", blobs, partial(mlp, depth=4, activation="tanh"), adam(3e-3)),
        ("residual-mlp", blobs, residual_mlp, adam(2e-3)),
        ("highway", blobs, _highway, adam(5e-3)),
        ("crossed-features", binary, _crossed, adam(5e-3)),
        ("experts", blobs, _experts, adam(5e-3)),
        ("autoencoder", same, autoencoder, adam(5e-3)),
        (
            "zero-head-mlp",
            blobs,
            partial(mlp, last={"init": "zeros"}),
            adam(5e-3),
        ),
    )
)

_TASKS = (
    *(
        healthy(name, training(task, mlp, adam(rate)))
        for name, task, rate in (
            ("rings-mlp", rings, 0.01),
            ("binary-mlp", binary, 5e-3),
            ("multi-label-mlp", multi_label, 5e-3),
            ("regression-mlp", regression, 5e-3),
            ("huber-mlp", _with_loss(regression, "huber"), 5e-3),
            ("absolute-error-mlp", _with_loss(regression, "mae"), 5e-3),
            ("sparse-inputs-mlp", sparse, 5e-3),
        )
    ),
    healthy(
        "poisson-mlp",
        training(_counts, partial(mlp, last={"activation": "softplus"}), adam(5e-3)),
    ),
)

_SIZES = (
    *(
        healthy(
            f"width-{width}-mlp",
            training(blobs, partial(mlp, width=width, depth=2), adam(rate)),
        )
        for width, rate in ((8, 0.01), (128, 3e-3), (512, 1e-3))
    ),
    *(
        healthy(
            f"batch-{batch}-mlp",
            training(partial(blobs, spread=0.4), mlp, adam(rate), batch=batch),
        )
        for batch, rate in ((4, 3e-3), (16, 5e-3), (128, 5e-3))
    ),
)

# The loss weight and the rate of plain descent cancel: the same run three times.
_SCALES = tuple(
    healthy(
        f"loss-times-{weight:g}-mlp",
        training(blobs, mlp, sgd(0.1 / weight), loss_weights=weight),
    )
    for weight in (1e-3, 1.0, 1e3)
) + tuple(
    healthy(
        f"loss-times-{weight:g}-adam",
        training(regression, mlp, adam(5e-3), loss_weights=weight),
    )
    for weight in (1e-2, 1e3)
)

FAMILIES = _ACTIVATIONS + _MODELS + _TASKS + _SIZES + _SCALES
