"""Healthy runs by how they are trained, and by what went before."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras

from ._data import Data, Rng, blobs, images, regression, tokens
from ._fit import JIT, Draws, Prepare, adam, by_rate, healthy, sgd, training
from ._healthy_sequences import warmed
from ._nets import cnn, mlp
from ._nets_sequence import rnn, transformer, word_bag

_OPTIMIZERS = tuple(
    healthy(f"{name}-mlp", training(blobs, mlp, optimizer))
    for name, optimizer in (
        ("sgd", sgd(0.1)),
        ("momentum", sgd(0.02, momentum=0.9)),
        ("nesterov", sgd(0.02, momentum=0.9, nesterov=True)),
        ("adam", adam(3e-3)),
        ("adamw", by_rate("AdamW", 5e-3, weight_decay=0.01)),
        ("amsgrad", adam(5e-3, amsgrad=True)),
        ("rmsprop", by_rate("RMSprop", 2e-3)),
        ("adagrad", by_rate("Adagrad", 0.03)),
        ("adadelta", by_rate("Adadelta", 1.0, epsilon=1e-4)),
        ("adamax", by_rate("Adamax", 5e-3)),
        ("nadam", by_rate("Nadam", 3e-3)),
        ("lion", by_rate("Lion", 1e-3)),
        ("lamb", by_rate("Lamb", 0.01)),
        ("muon", by_rate("Muon", 5e-3, adam_lr_ratio=1.0)),
    )
)


def _scaled(draws: Draws) -> Draws:
    """Puts loss scaling around an optimizer."""

    def draw(rng: Rng) -> Any:
        return keras.optimizers.LossScaleOptimizer(draws(rng), initial_scale=2.0**12)

    return draw


_HALF, _BRAIN = "mixed_float16", "mixed_bfloat16"

_PRECISION = tuple(
    healthy(name, training(task, net, optimizer))
    for name, task, net, optimizer in (
        ("scaled-float16-mlp", blobs, partial(mlp, dtype=_HALF), _scaled(adam(5e-3))),
        ("scaled-float16-cnn", images, partial(cnn, dtype=_HALF), _scaled(adam(5e-3))),
        (
            "scaled-float16-transformer",
            tokens,
            partial(transformer, dtype=_HALF, dropout=0.05),
            _scaled(warmed(5e-3)),
        ),
        ("bfloat16-mlp", blobs, partial(mlp, dtype=_BRAIN), adam(5e-3)),
        ("bfloat16-cnn", images, partial(cnn, dtype=_BRAIN), adam(5e-3)),
    )
)

_HABITS = tuple(
    healthy(name, training(task, net, optimizer))
    for name, task, net, optimizer in (
        # Acts on the first steps, and on one now and then.
        ("mild-clipping-mlp", blobs, mlp, sgd(0.1, global_clipnorm=1.5)),
        ("mild-clipping-cnn", images, cnn, adam(5e-3, clipnorm=1.0)),
        ("accumulating-mlp", blobs, mlp, adam(0.01, gradient_accumulation_steps=2)),
        ("moving-average-mlp", blobs, mlp, adam(5e-3, use_ema=True)),
        ("decayed-cnn", images, cnn, by_rate("AdamW", 5e-3, weight_decay=0.02)),
        (
            "regularised-mlp",
            blobs,
            partial(mlp, kernel_regularizer=keras.regularizers.L2(1e-3)),
            adam(5e-3),
        ),
        ("warmed-mlp", blobs, mlp, warmed(5e-3, "Adam")),
        ("cosine-momentum-cnn", images, cnn, warmed(0.03, "SGD", momentum=0.9)),
    )
)


def _smoothed(rng: Rng, n: int) -> Data:
    data = blobs(rng, n)
    y = keras.utils.to_categorical(data.y, data.units)
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    return data._replace(y=y, loss=loss)


def _trained(rng: Rng, model: keras.Model, data: Data) -> None:
    """Trains the model on the data until little is left to learn."""
    del rng
    # Compiled once more afterwards, with an optimizer that remembers nothing.
    model.compile(
        optimizer=keras.optimizers.Adam(5e-3), loss=data.loss, jit_compile=JIT
    )
    model.fit(data.x, data.y, batch_size=64, epochs=8, verbose=0)


def _held_once_trained(*names: str) -> Prepare:
    """Trains the model, freezes some of its layers, and gives it a new head."""

    def prepare(rng: Rng, model: keras.Model, data: Data) -> None:
        _trained(rng, model, data)
        for name in names:
            model.get_layer(name).trainable = False
        kernel = model.get_layer("head").kernel
        kernel.assign(rng.normal(size=kernel.shape) / kernel.shape[0] ** 0.5)

    return prepare


_AFTERWARDS = (
    healthy("label-smoothing-mlp", training(_smoothed, mlp, adam(5e-3))),
    healthy(
        "class-weights-mlp",
        training(blobs, mlp, adam(5e-3), class_weight={0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0}),
    ),
    *(
        healthy(
            name, training(task, net, adam(5e-3), prepare=_held_once_trained(*held))
        )
        for name, task, net, held in (
            ("frozen-trained-mlp", blobs, partial(mlp, depth=3), ["hidden_0"]),
            ("frozen-trained-cnn", images, cnn, ["conv_0", "conv_1"]),
            ("frozen-trained-words", tokens, word_bag, ["front"]),
        )
    ),
    *(
        healthy(name, training(task, net, adam(1e-3), prepare=_trained))
        for name, task, net in (
            ("converged-mlp", partial(blobs, spread=0.4), mlp),
            ("converged-regression", regression, mlp),
            ("converged-lstm", tokens, partial(rnn, pooled=True)),
        )
    ),
)

FAMILIES = _OPTIMIZERS + _PRECISION + _HABITS + _AFTERWARDS
