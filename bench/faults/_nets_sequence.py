"""Models of sequences for the suite's runs: recurrent, or with attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ._data import Data, Rng
from ._fit import whole
from ._nets import Init, Span, head, start


def front(data: Data, width: int, **options: Any) -> tuple[Any, Any]:
    """An input, and a layer that makes vectors of its tokens or numbers."""
    if data.vocabulary:
        inputs = keras.Input(data.x.shape[1:], dtype="int32")
        lookup = layers.Embedding(data.vocabulary, width, name="front", **options)
        return inputs, lookup(inputs)
    inputs = keras.Input(data.x.shape[1:])
    each = layers.Dense(width, name="each", **options)
    return inputs, layers.TimeDistributed(each, name="front")(inputs)


def rnn(
    rng: Rng,
    data: Data,
    *,
    kind: str = "LSTM",
    width: Span = (12, 20),
    depth: int = 1,
    pooled: bool = False,
    **options: Any,
) -> keras.Model:
    """Recurrent layers; the head reads the last step, or with `pooled` all of them.

    `both_ways` reads the sequence also from its end; other options are the cell's.
    """
    both_ways, last = options.pop("both_ways", False), options.pop("last", {})
    ahead = options.pop("front", {})
    units = whole(rng, width)
    inputs, x = front(data, units, **ahead)
    for i in range(depth):
        settings = {k: v() if callable(v) else v for k, v in options.items()}
        settings["return_sequences"] = pooled or i < depth - 1
        name = f"cells_{i}" if both_ways else f"recurrent_{i}"
        cells = getattr(layers, kind)(units, name=name, **settings)
        if both_ways:
            cells = layers.Bidirectional(cells, name=f"recurrent_{i}")
        x = cells(x)
    if pooled:
        x = layers.GlobalAveragePooling1D(name="pool")(x)
    return keras.Model(inputs, head(x, data, **last), name="rnn")


class Positions(layers.Layer):
    """Adds a learnt vector for each place in the sequence."""

    def build(self, shape: Any) -> None:
        """Makes the vectors."""
        self.vectors = self.add_weight(
            shape=shape[1:],
            initializer=keras.initializers.RandomNormal(stddev=0.1),
            name="vectors",
        )

    def call(self, x: Any) -> Any:
        """Returns the sum."""
        return x + keras.ops.cast(self.vectors, x.dtype)


def attention_block(
    x: Any,
    name: str,
    *,
    norm: str = "pre",
    causal: bool = False,
    activation: str = "gelu",
    init: Init = None,
    dropout: float = 0.0,
    **options: Any,
) -> Any:
    """Self-attention, then two dense layers; each adds to what it was given."""
    width = x.shape[-1]

    def normed(y: Any, which: str, when: str) -> Any:
        if norm != when:
            return y
        return layers.LayerNormalization(name=f"{name}_{which}", **options)(y)

    y = normed(x, "norm_a", "pre")
    attend = layers.MultiHeadAttention(
        2,
        width // 2,
        dropout=dropout,
        kernel_initializer=start(init),
        name=f"{name}_attention",
        **options,
    )
    x = layers.Add(name=f"{name}_mid")([x, attend(y, y, use_causal_mask=causal)])
    x = normed(x, "norm_a", "post")
    y = normed(x, "norm_b", "pre")
    y = layers.Dense(
        2 * width,
        activation=activation,
        kernel_initializer=start(init),
        name=f"{name}_up",
        **options,
    )(y)
    y = layers.Dense(
        width, kernel_initializer=start(init), name=f"{name}_down", **options
    )(y)
    return normed(layers.Add(name=name)([x, y]), "norm_b", "post")


def transformer(
    rng: Rng,
    data: Data,
    *,
    blocks: Span = (1, 2),
    width: int = 16,
    norm: str = "pre",
    every_step: bool = False,
    **options: Any,
) -> keras.Model:
    """Blocks of self-attention; the head reads their mean, or `every_step` for itself.

    Options are those of `attention_block`; `last` is the head's own.
    """
    last = options.pop("last", {})
    dtype = {k: v for k, v in options.items() if k == "dtype"}
    inputs, x = front(data, width, **dtype)
    x = Positions(name="positions", **dtype)(x)
    for i in range(whole(rng, blocks)):
        x = attention_block(x, f"block_{i}", norm=norm, **options)
    if norm == "pre":
        x = layers.LayerNormalization(name="norm", **dtype)(x)
    if not every_step:
        x = layers.GlobalAveragePooling1D(name="pool")(x)
    return keras.Model(inputs, head(x, data, **last), name="transformer")


def text_cnn(
    rng: Rng,
    data: Data,
    *,
    depth: Span = 1,
    activation: str = "relu",
    **options: Any,
) -> keras.Model:
    """Convolutions along the sequence, and the largest answer to each."""
    units = whole(rng, (12, 20))
    inputs, x = front(data, units)
    for i in range(whole(rng, depth)):
        x = layers.Conv1D(
            units,
            3,
            padding="same",
            activation=activation,
            kernel_initializer=start(options.get("init"), activation),
            name=f"conv_{i}",
        )(x)
    x = layers.GlobalMaxPooling1D(name="pool")(x)
    return keras.Model(inputs, head(x, data), name="text_cnn")


def word_bag(
    rng: Rng, data: Data, *, width: Span = (6, 10), hidden: bool = True
) -> keras.Model:
    """The mean of the words' vectors."""
    inputs, x = front(data, whole(rng, width))
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    if hidden:
        # Means of words are much alike: many a ReLU would answer none of them.
        x = layers.Dense(16, activation="tanh", name="hidden")(x)
    return keras.Model(inputs, head(x, data), name="word_bag")
