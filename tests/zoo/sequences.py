"""Kinds with a time axis: recurrent layers, attention, masks, embeddings."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from .case import BATCH, Built, compiled, from_logits, numbers, whole_numbers

STEPS = 4


def _chain(*chain: keras.Layer, name: str) -> Built:
    head = layers.Dense(2, name="head")
    model = keras.Sequential([keras.Input((STEPS, 3)), *chain, head], name=name)
    y = numbers(*model.output_shape[1:], seed=1)
    return compiled(model), numbers(STEPS, 3), y


def lstm() -> Built:
    """An LSTM that gives its last output."""
    return _chain(layers.LSTM(5, name="lstm"), name="lstm")


def lstm_states() -> Built:
    """An LSTM that gives all outputs and both states; the last output comes twice."""
    inputs = keras.Input((STEPS, 3))
    every, last, cell = layers.LSTM(
        4, return_sequences=True, return_state=True, name="lstm"
    )(inputs)
    decoded = layers.LSTM(4, name="decoder")(every, initial_state=[cell, last])
    outputs = layers.Dense(2, name="head")(decoded + ops.tanh(last))
    model = keras.Model(inputs, outputs, name="lstm_states")
    return compiled(model), numbers(STEPS, 3), numbers(2, seed=1)


def stateful_lstm() -> Built:
    """An LSTM that goes on from the last batch."""
    inputs = keras.Input(batch_shape=(BATCH, STEPS, 3))
    x = layers.LSTM(4, stateful=True, name="lstm")(inputs)
    model = keras.Model(inputs, layers.Dense(2, name="head")(x), name="stateful_lstm")
    model.predict(numbers(STEPS, 3, seed=5), batch_size=BATCH, verbose=0)
    return compiled(model), numbers(STEPS, 3), numbers(2, seed=1)


def lstm_dropout() -> Built:
    """An LSTM with dropout on inputs and states."""
    layer = layers.LSTM(4, dropout=0.3, recurrent_dropout=0.3, seed=5, name="lstm")
    return _chain(layer, name="lstm_dropout")


def gru() -> Built:
    """Two GRUs, the first giving the whole sequence."""
    first = layers.GRU(4, return_sequences=True, name="first")
    return _chain(first, layers.GRU(3, name="second"), name="gru")


def bidirectional() -> Built:
    """Both directions, joined."""
    inner = layers.LSTM(3, return_sequences=True, name="inner")
    wrapped = layers.Bidirectional(inner, merge_mode="concat", name="both")
    back = layers.GRU(3, go_backwards=True, name="back")
    return _chain(wrapped, back, name="bidirectional")


def time_distributed() -> Built:
    """A layer and a whole model applied to each step."""
    block = keras.Sequential(
        [keras.Input((4,)), layers.Dense(5, activation="tanh", name="dense")],
        name="block",
    )
    dense = layers.TimeDistributed(layers.Dense(4, name="dense"), name="steps")
    whole = layers.TimeDistributed(block, name="blocks")
    return _chain(dense, whole, layers.Flatten(name="flat"), name="time_distributed")


class _Cell(layers.Layer):
    """Keeps a slow and a fast state; returns the states as a dict would not be."""

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.units = units
        self.state_size = [units, units]
        self.output_size = units
        self.read = layers.Dense(units, name="read")
        self.keep = layers.Dense(units, use_bias=False, name="keep")

    def build(self, shape: Any) -> None:
        self.read.build(shape)
        self.keep.build((None, self.units))

    def call(self, x: Any, states: Any) -> Any:
        fast, slow = states
        fast = ops.tanh(self.read(x) + self.keep(fast) + slow)
        slow = 0.9 * slow + 0.1 * ops.square(fast)
        return fast - slow, [fast, slow]


def custom_cell() -> Built:
    """A cell of one's own, with sublayers, in `keras.layers.RNN`."""
    return _chain(layers.RNN(_Cell(4, name="cell"), name="rnn"), name="custom_cell")


def stacked_cells() -> Built:
    """Two cells on top of each other in one loop."""
    cells = [layers.LSTMCell(4, name="lower"), layers.GRUCell(3, name="upper")]
    return _chain(layers.RNN(cells, name="rnn"), name="stacked_cells")


def unrolled() -> Built:
    """Loops written out step by step, so that their cells can be seen."""
    first = layers.RNN(
        layers.GRUCell(4, name="cell"), return_sequences=True, unroll=True, name="gru"
    )
    cells = [layers.SimpleRNNCell(3, name="lower"), layers.LSTMCell(2, name="upper")]
    return _chain(
        first, layers.RNN(cells, unroll=True, name="stacked"), name="unrolled"
    )


def masked() -> Built:
    """Padded steps left out by `Masking`, through a layer that hands the mask on."""
    built = _chain(
        layers.Masking(name="masking"),
        layers.Dense(3, activation="tanh", name="dense"),
        layers.LSTM(4, name="lstm"),
        name="masked",
    )
    built[1][0, 2:] = built[1][1, 3:] = 0
    return built


def masked_embedding() -> Built:
    """Tokens, padded with zeros that the embedding masks."""
    inputs = keras.Input((STEPS,), dtype="int32")
    x = layers.Embedding(7, 4, mask_zero=True, name="embed")(inputs)
    x = layers.Bidirectional(layers.GRU(3, name="gru"), name="both")(x)
    model = keras.Model(inputs, layers.Dense(3, name="head")(x))
    model.name = "masked_embedding"
    x = np.array([[1, 2, 2, 0], [3, 0, 0, 0], [4, 1, 6, 2]], "int32")
    return compiled(model, loss=from_logits()), x, whole_numbers(3)


def masked_labels() -> Built:
    """A label for each step: the mask reaches the loss, which leaves padding out."""
    inputs = keras.Input((STEPS,), dtype="int32")
    x = layers.Embedding(7, 4, mask_zero=True, name="embed")(inputs)
    x = layers.LSTM(3, return_sequences=True, name="lstm")(x)
    model = keras.Model(inputs, layers.Dense(3, name="head")(x), name="masked_labels")
    x = np.array([[1, 2, 2, 0], [3, 0, 0, 0], [4, 1, 6, 2]], "int32")
    return compiled(model, loss=from_logits()), x, whole_numbers(3, STEPS)


def embedding() -> Built:
    """Tokens that repeat, so that rows of the gradient add up, and never-used ones."""
    inputs = keras.Input((STEPS,), dtype="int32")
    x = layers.Embedding(9, 4, name="embed")(inputs)
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    x = layers.Dense(3, name="head")(ops.tanh(x))
    model = keras.Model(inputs, x, name="embedding")
    x = np.array([[1, 1, 1, 2], [2, 3, 3, 1], [5, 5, 8, 0]], "int32")
    return compiled(model, loss=from_logits()), x, whole_numbers(3)


def tied_embedding() -> Built:
    """An embedding whose matrix is also the output layer."""

    class Tied(keras.Model):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.embed = layers.Embedding(6, 4, name="embed")
            self.mix = layers.Dense(4, activation="tanh", name="mix")

        def call(self, tokens: Any) -> Any:
            hidden = self.mix(self.embed(tokens))
            return ops.matmul(hidden, ops.transpose(self.embed.embeddings))

    model = Tied(name="tied_embedding")
    x = whole_numbers(6, STEPS)
    model(x)
    return compiled(model, loss=from_logits()), x, whole_numbers(6, STEPS, seed=1)


def attention() -> Built:
    """A transformer block: attention, residuals, normalisation, dropout."""
    inputs = keras.Input((STEPS, 4))
    attended = layers.MultiHeadAttention(2, 2, dropout=0.2, seed=1, name="attention")(
        inputs, inputs, use_causal_mask=True
    )
    x = layers.LayerNormalization(name="norm_1")(inputs + attended)
    forward = layers.Dense(6, activation="gelu", name="up")(x)
    forward = layers.Dropout(0.2, seed=2, name="drop")(forward)
    x = layers.LayerNormalization(name="norm_2")(
        x + layers.Dense(4, name="down")(forward)
    )
    outputs = layers.Dense(2, name="head")(x)
    model = keras.Model(inputs, outputs, name="attention")
    return compiled(model), numbers(STEPS, 4), numbers(STEPS, 2, seed=1)


def attention_scores() -> Built:
    """Attention between two sequences that also gives its scores, which are used."""

    class Scores(keras.Model):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.attention = layers.MultiHeadAttention(2, 3, name="attention")
            self.head = layers.Dense(2, name="head")

        def call(self, x: Any) -> Any:
            out, scores = self.attention(
                x, value=ops.tanh(x[:, 1:]), key=x[:, :-1], return_attention_scores=True
            )
            return (
                self.head(out)
                + ops.sum(scores, axis=(1, 3))[..., None] * scores[:, 0, :, :2]
            )

    model = Scores(name="attention_scores")
    model(ops.zeros((1, STEPS, 4)))
    return compiled(model), numbers(STEPS, 4), numbers(STEPS, 2, seed=1)


KINDS = (
    lstm,
    lstm_states,
    stateful_lstm,
    lstm_dropout,
    gru,
    bidirectional,
    time_distributed,
    custom_cell,
    stacked_cells,
    unrolled,
    masked,
    masked_embedding,
    masked_labels,
    embedding,
    tied_embedding,
    attention,
    attention_scores,
)
