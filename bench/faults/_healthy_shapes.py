"""Healthy runs of models with several inputs, outputs or losses, or their own step."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from ._data import (
    Data,
    Rng,
    blobs,
    images,
    pairs,
    regression,
    same,
    two_tasks,
    two_views,
)
from ._fit import adam, healthy, training
from ._nets import cnn, dense_block, head, mlp, two_heads


def _two_inputs(rng: Rng, data: Data) -> keras.Model:
    picture, numbers = (keras.Input(x.shape[1:]) for x in data.x)
    seen = cnn(rng, data._replace(x=data.x[0], units=12))(picture)
    read = dense_block(numbers, 12, "relu", "numbers")
    joined = layers.Concatenate(name="join")([seen, read])
    return keras.Model([picture, numbers], head(joined, data))


def _tower(data: Data, width: int, name: str = "tower") -> keras.Model:
    inputs = keras.Input(data.x[0].shape[1:])
    x = dense_block(inputs, width, "relu", "hidden")
    # No bias: that of two codes whose difference is taken would have no gradient.
    return keras.Model(
        inputs, layers.Dense(6, use_bias=False, name="code")(x), name=name
    )


def _siamese(rng: Rng, data: Data) -> keras.Model:
    """One tower for both; squared distance, so that its gradient exists at zero."""
    left, right = (keras.Input(x.shape[1:]) for x in data.x)
    tower = _tower(data, int(rng.integers(16, 33)))
    gap = ops.square(tower(left) - tower(right))
    return keras.Model([left, right], head(gap, data))


def _two_towers(rng: Rng, data: Data) -> keras.Model:
    """Likeness by a product of two codes."""
    left, right = (keras.Input(x.shape[1:]) for x in data.x)
    width = int(rng.integers(16, 33))
    codes = [_tower(data, width, "left")(left), _tower(data, width, "right")(right)]
    return keras.Model([left, right], layers.Dot(axes=1, name="likeness")(codes))


class _Sampled(layers.Layer):
    """Draws from a normal distribution, and adds its divergence to the loss."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seeds = keras.random.SeedGenerator(7)

    def call(self, x: Any) -> Any:
        mean, spread = ops.split(x, 2, axis=-1)
        kept = 1 + spread - ops.square(mean) - ops.exp(spread)
        self.add_loss(-0.02 * ops.mean(kept))
        noise = keras.random.normal(ops.shape(mean), seed=self.seeds)
        return mean + ops.exp(0.5 * spread) * noise


def _vae(rng: Rng, data: Data) -> keras.Model:
    inputs = keras.Input(data.x.shape[1:])
    width = int(rng.integers(20, 33))
    x = dense_block(inputs, width, "relu", "down")
    x = _Sampled(name="code")(layers.Dense(8, name="moments")(x))
    return keras.Model(inputs, head(dense_block(x, width, "relu", "up"), data))


class _Contrast(keras.Model):
    """Pulls two noisy views of a point together, and pushes other points away."""

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Cross-entropy of which row of one view belongs to which of the other."""
        del x, y, sample_weight, training
        one, two = ops.split(ops.normalize(y_pred, axis=-1), 2, axis=1)
        like = 5.0 * one[:, 0] @ ops.transpose(two[:, 0])
        right = ops.arange(ops.shape(like)[0])
        return ops.mean(
            keras.losses.sparse_categorical_crossentropy(right, like, from_logits=True)
        )


def _contrast(rng: Rng, data: Data) -> keras.Model:
    inputs = keras.Input(data.x.shape[1:])
    x = dense_block(inputs, int(rng.integers(24, 41)), "relu", "hidden")
    return _Contrast(inputs, layers.Dense(8, name="code")(x), name="contrast")


def _views(rng: Rng, n: int) -> Data:
    data = regression(rng, n)
    twice = [data.x + 0.2 * rng.normal(size=data.x.shape) for _ in range(2)]
    return data._replace(x=np.stack(twice, axis=1).astype("float32"))


def _quantiles(y: Any, p: Any) -> Any:
    """The pinball loss of a low, a middle and a high quantile."""
    share = ops.convert_to_tensor([0.1, 0.5, 0.9], dtype=p.dtype)
    gap = y - p
    return ops.mean(ops.maximum(share * gap, (share - 1) * gap), axis=-1)


def _likelihood(y: Any, p: Any) -> Any:
    """A normal likelihood whose variance cannot be zero."""
    variance = ops.softplus(p[:, 1:]) + 0.05
    return ops.mean(ops.log(variance) + ops.square(y - p[:, :1]) / variance, axis=-1)


def _asking(loss: Any, units: int) -> Any:
    def draw(rng: Rng, n: int) -> Data:
        return regression(rng, n)._replace(loss=loss, units=units)

    return draw


class _Subclassed(keras.Model):
    """Layers in a list, one of them used twice."""

    def __init__(self, width: int, units: int) -> None:
        super().__init__(name="subclassed")
        self.stem = layers.Dense(width, activation="relu", name="stem")
        self.steps = [layers.Dense(width, activation="tanh", name="step")] * 2
        self.head = layers.Dense(units, name="head")

    def call(self, x: Any) -> Any:
        x = self.stem(x)
        for step in self.steps:
            x = x + step(x)
        return self.head(x)


def _subclassed(rng: Rng, data: Data) -> keras.Model:
    model = _Subclassed(int(rng.integers(16, 33)), data.units)
    model(data.x[:1])
    return model


FAMILIES = tuple(
    healthy(name, training(task, net, adam(rate)))
    for name, task, net, rate in (
        ("two-inputs", two_views, _two_inputs, 5e-3),
        ("siamese", pairs, _siamese, 5e-3),
        ("two-towers", pairs, _two_towers, 5e-3),
        ("two-heads-mlp", two_tasks, two_heads, 5e-3),
        (
            "two-heads-cnn",
            partial(two_tasks, of=images),
            partial(two_heads, trunk=cnn),
            5e-3,
        ),
        ("variational-autoencoder", same, _vae, 5e-3),
        ("contrastive-views", _views, _contrast, 5e-3),
        ("quantile-regression", _asking(_quantiles, 3), mlp, 5e-3),
        ("mean-and-variance", _asking(_likelihood, 2), mlp, 5e-3),
        ("subclassed-shared-layer", blobs, _subclassed, 5e-3),
    )
)
