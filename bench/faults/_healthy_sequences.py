"""Healthy runs of recurrent models, of attention, and of models of words."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
from keras import layers

from ._data import Data, Rng, next_tokens, sequences, tokens
from ._fit import Draws, adam, healthy, near, training
from ._nets import head
from ._nets_sequence import front, rnn, text_cnn, transformer, word_bag


def warmed(rate: float, kind: str = "AdamW", **options: Any) -> Draws:
    """Returns what draws an optimizer whose rate rises for ten steps, then sinks."""

    def draw(rng: Rng) -> Any:
        plan = keras.optimizers.schedules.CosineDecay(
            near(rng, rate) / 100,
            50,
            alpha=0.1,
            warmup_target=near(rng, rate),
            warmup_steps=10,
        )
        return getattr(keras.optimizers, kind)(plan, **options)

    return draw


def _weighing(rng: Rng, data: Data) -> keras.Model:
    """A mean over time whose weights are learnt."""
    inputs, x = front(data, int(rng.integers(12, 21)))
    score = layers.Dense(1, name="score")(x)
    weight = layers.Softmax(axis=1, name="weight")(score)
    x = layers.Flatten(name="mean")(layers.Dot(axes=1, name="sum")([weight, x]))
    return keras.Model(inputs, head(x, data))


def _dilated(rng: Rng, data: Data) -> keras.Model:
    """Causal convolutions that look back further and further."""
    width = int(rng.integers(12, 21))
    inputs, x = front(data, width)
    for i in range(3):
        y = layers.Conv1D(
            width,
            2,
            dilation_rate=2**i,
            padding="causal",
            activation="relu",
            kernel_initializer="he_normal",
            name=f"conv_{i}",
        )(x)
        x = layers.Add(name=f"block_{i}")([x, y])
    return keras.Model(
        inputs, head(layers.GlobalAveragePooling1D(name="pool")(x), data)
    )


def _set_of(rng: Rng, data: Data) -> keras.Model:
    """A function of a set: each member by itself, then their sum."""
    inputs, x = front(data, int(rng.integers(12, 21)), activation="relu")
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    x = layers.Dense(16, activation="tanh", name="hidden")(x)
    return keras.Model(inputs, head(x, data))


_short = partial(sequences, steps=8)

FAMILIES = tuple(
    healthy(name, training(task, net, optimizer))
    for name, task, net, optimizer in (
        ("lstm", _short, rnn, adam(0.01)),
        ("lstm-pooled", sequences, partial(rnn, pooled=True), adam(0.01)),
        ("lstm-two-layers", _short, partial(rnn, depth=2, pooled=True), adam(0.01)),
        ("lstm-both-ways", _short, partial(rnn, both_ways=True), adam(0.01)),
        ("lstm-on-tokens", tokens, partial(rnn, pooled=True), adam(0.01)),
        ("gru", _short, partial(rnn, kind="GRU"), adam(0.01)),
        ("gru-on-tokens", tokens, partial(rnn, kind="GRU", pooled=True), adam(0.01)),
        (
            "simple-rnn-short",
            partial(sequences, steps=6),
            partial(rnn, kind="SimpleRNN", pooled=True),
            adam(5e-3),
        ),
        ("dilated-convolutions", sequences, _dilated, adam(5e-3)),
        ("text-cnn", tokens, text_cnn, adam(5e-3)),
        ("word-bag", tokens, word_bag, adam(0.02)),
        ("word-bag-linear", tokens, partial(word_bag, hidden=False), adam(0.03)),
        ("weighed-words", tokens, _weighing, adam(0.02)),
        ("set-of-points", sequences, _set_of, adam(0.01)),
        ("transformer", tokens, transformer, warmed(5e-3)),
        ("transformer-on-waves", sequences, transformer, warmed(3e-3)),
        (
            "transformer-dropout",
            tokens,
            partial(transformer, dropout=0.1, blocks=2),
            warmed(5e-3),
        ),
        (
            "transformer-post-norm",
            tokens,
            partial(transformer, norm="post"),
            warmed(3e-3),
        ),
        (
            "language-model",
            next_tokens,
            partial(transformer, causal=True, every_step=True),
            warmed(5e-3),
        ),
    )
)
