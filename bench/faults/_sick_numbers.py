"""Runs that leave the range of numbers: not finite, or too small for half precision."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from ._data import (
    Data,
    Rng,
    Task,
    binary,
    blobs,
    images,
    pairs,
    regression,
    same,
    sequences,
    tokens,
    unscaled,
)
from ._fit import adam, sgd, sick, training
from ._nets import autoencoder, cnn, dense_block, head, mlp
from ._nets_sequence import front, rnn, transformer

# Once weights are NaN, nothing that is measured of them means anything.
_AFTER = (
    "exploding large-updates saturated stuck-loss dead-units dead-layer noise "
    "dominating-layer fading"
)


def _own_cross_entropy(y: Any, p: Any) -> Any:
    """Cross-entropy by hand: a probability that rounds to 0 or 1 has no logarithm."""
    return -ops.mean(y * ops.log(p) + (1 - y) * ops.log(1 - p), axis=-1)


def _own_likelihood(y: Any, p: Any) -> Any:
    """A normal likelihood whose variance, from a ReLU, may be zero."""
    mean, variance = p[:, :1], ops.relu(p[:, 1:])
    return ops.mean(ops.log(variance) + ops.square(y - mean) / variance, axis=-1)


def _own_poisson(y: Any, p: Any) -> Any:
    """A Poisson likelihood whose rate is the exponential of anything."""
    return ops.mean(ops.exp(p) - y * p, axis=-1)


class _Standardise(layers.Layer):
    """Divides each picture by its deviation, which a blank one has not."""

    def call(self, x: Any) -> Any:
        spread = ops.std(x, axis=(1, 2, 3), keepdims=True)
        return (x - ops.mean(x, axis=(1, 2, 3), keepdims=True)) / spread


class _OwnAttention(layers.Layer):
    """Attention with a softmax by hand: exponentials overflow."""

    def build(self, shape: Any) -> None:
        size = (shape[-1], shape[-1])
        self.query = self.add_weight(shape=size, name="query")
        self.key = self.add_weight(shape=size, name="key")

    def call(self, x: Any) -> Any:
        scores = (x @ self.query) @ ops.transpose(x @ self.key, (0, 2, 1))
        share = ops.exp(scores)
        return (share / ops.sum(share, axis=-1, keepdims=True)) @ x


def _with(task: Task, loss: Any, units: int = 1) -> Task:
    def draw(rng: Rng, n: int) -> Data:
        return task(rng, n)._replace(loss=loss, units=units)

    return draw


def _counts(rng: Rng, n: int) -> Data:
    data = unscaled(rng, n, of=images, by=500.0)
    return data._replace(y=data.y[:, None].astype("float32"))


def _with_blanks(rng: Rng, n: int) -> Data:
    data = images(rng, n)
    data.x[rng.random(n) < 0.02] = 0.0
    return data


def _with_a_gap(rng: Rng, n: int) -> Data:
    """Data whose second half has missing values."""
    data = sequences(rng, n)
    late = (np.arange(n) >= n // 2) & (rng.random(n) < 0.05)
    data.x[late, 2] = np.nan
    return data


def _standardising_cnn(rng: Rng, data: Data) -> keras.Model:
    del rng
    inputs = keras.Input(data.x.shape[1:])
    x = layers.Conv2D(8, 3, use_bias=False, activation="relu", name="conv")(inputs)
    x = _Standardise(name="standardise")(x)
    x = layers.GlobalMaxPooling2D(name="pool")(x)
    return keras.Model(inputs, head(x, data))


def _distance(rng: Rng, data: Data) -> keras.Model:
    """The distance of two points: its gradient where they are one is 0 / 0."""
    del rng
    left, right = (keras.Input(x.shape[1:]) for x in data.x)
    inner = keras.Input(data.x[0].shape[1:])
    code = dense_block(inner, 16, "relu", "hidden")
    tower = keras.Model(
        inner, layers.Dense(4, use_bias=False, name="code")(code), name="tower"
    )
    gap = tower(left) - tower(right)
    length = ops.sqrt(ops.sum(ops.square(gap), axis=-1, keepdims=True))
    return keras.Model([left, right], head(length, data))


def _attending(rng: Rng, data: Data) -> keras.Model:
    del rng
    inputs, x = front(data, 12)
    x = _OwnAttention(name="attention")(x)
    return keras.Model(
        inputs, head(layers.GlobalAveragePooling1D(name="pool")(x), data)
    )


_HALF = "mixed_float16"
_unscaled_binary = partial(unscaled, of=binary, by=12.0)

NONFINITE = (
    sick(
        "log-of-zero-mlp",
        training(
            _with(_unscaled_binary, _own_cross_entropy),
            partial(mlp, last={"activation": "sigmoid"}),
            sgd(0.05),
        ),
        "nonfinite",
        _AFTER,
    ),
    sick(
        "log-of-zero-variance",
        training(
            _with(regression, _own_likelihood, 2), partial(mlp, width=16), adam(3e-3)
        ),
        "nonfinite",
        _AFTER,
    ),
    sick(
        "exp-overflow-cnn",
        # Several outputs: of a single one, all may happen to be below zero.
        training(_with(_counts, _own_poisson, 8), cnn, adam(1e-3)),
        "nonfinite",
        _AFTER,
    ),
    sick(
        "exp-overflow-attention",
        training(partial(unscaled, of=sequences, by=30.0), _attending, adam(1e-3)),
        "nonfinite",
        _AFTER,
    ),
    sick(
        "sqrt-at-zero-twins",
        training(partial(pairs, twins=0.02), _distance, adam(3e-3)),
        "nonfinite",
        _AFTER,
    ),
    sick(
        "division-by-blank-picture",
        training(_with_blanks, _standardising_cnn, adam(3e-3)),
        "nonfinite",
        _AFTER,
    ),
    sick(
        "missing-values-lstm",
        training(_with_a_gap, rnn, adam(3e-3), epochs=1, shuffle=False),
        "nonfinite",
        _AFTER,
    ),
    sick(
        "float16-overflow-mlp",
        training(
            partial(unscaled, of=blobs, by=2e4),
            partial(mlp, dtype=_HALF),
            adam(1e-3),
            auto_scale_loss=False,
        ),
        "nonfinite",
        f"{_AFTER} underflow",
    ),
)

# With dropout Keras writes attention out; JAX's own knows no float16 on a CPU.
# A small loss weight makes gradients small, which float32 would not mind.
UNDERFLOW = tuple(
    sick(
        name,
        training(task, net, adam(1e-3), auto_scale_loss=False, loss_weights=weight),
        "underflow",
        "vanishing stuck-loss unreached dead-layer fading small-updates",
    )
    for name, task, net, weight in (
        ("float16-mlp", blobs, partial(mlp, dtype=_HALF), 3e-6),
        (
            "float16-deep-tanh-mlp",
            regression,
            partial(mlp, depth=4, activation="tanh", dtype=_HALF),
            1e-6,
        ),
        ("float16-cnn", images, partial(cnn, dtype=_HALF), 2e-5),
        ("float16-autoencoder", same, partial(autoencoder, dtype=_HALF), 3e-6),
        (
            "float16-transformer",
            tokens,
            partial(transformer, dtype=_HALF, dropout=0.05),
            2e-5,
        ),
    )
)

FAMILIES = NONFINITE + UNDERFLOW
