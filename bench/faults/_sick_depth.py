"""Runs whose gradients shrink or grow on their way back: through layers, or in time."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np

from ._data import blobs, images, regression, same, sequences, tokens
from ._fit import adam, sgd, sick, training
from ._nets import autoencoder, cnn, gain, mlp, residual_mlp
from ._nets_sequence import rnn, text_cnn, transformer

# A layer that learns nothing holds the loss up, and what is far below it barely moves.
_STARVED = "stuck-loss small-updates fading"
_THROWN = (
    "nonfinite large-updates initialisation dead-units dead-layer saturated "
    "dominating-layer noise stuck-loss fading"
)

_long = partial(sequences, steps=40, early=True)
_long_tokens = partial(tokens, steps=40)


def _turning(by: float) -> keras.initializers.Initializer:
    """Makes the state `by` times as long at each time step."""
    return keras.initializers.Orthogonal(gain=by)


def _forgetful(gates: int, which: int) -> Any:
    """Closes the one of a cell's gates that keeps the state, and leaves the others."""

    def bias(shape: Any, dtype: Any = None) -> Any:
        each = shape[-1] // gates
        drawn = np.zeros(shape)
        drawn[..., which * each : (which + 1) * each] = -3.0
        return keras.ops.convert_to_tensor(drawn, dtype=dtype)

    return bias


VANISHING = (
    sick(
        "deep-sigmoid-mlp",
        training(
            blobs,
            partial(mlp, depth=(8, 11), activation="sigmoid"),
            adam(1e-3),
        ),
        "vanishing",
        _STARVED,
    ),
    sick(
        "deep-sigmoid-mlp-sgd",
        training(
            regression,
            partial(mlp, depth=(7, 9), activation="sigmoid"),
            sgd(0.1),
        ),
        "vanishing",
        _STARVED,
    ),
    sick(
        "deep-tanh-small-start",
        training(
            blobs,
            partial(mlp, depth=(8, 10), activation="tanh", init=gain(0.25)),
            sgd(0.1),
        ),
        "vanishing",
        f"{_STARVED} initialisation",
    ),
    sick(
        "deep-sigmoid-cnn",
        training(
            images,
            partial(cnn, depth=(7, 8), width=8, activation="sigmoid"),
            adam(1e-3),
        ),
        "vanishing",
        _STARVED,
    ),
    sick(
        "deep-sigmoid-autoencoder",
        training(
            same,
            partial(autoencoder, depth=(3, 4), activation="sigmoid"),
            adam(1e-3),
        ),
        "vanishing",
        _STARVED,
    ),
    sick(
        "deep-sigmoid-text-cnn",
        training(
            tokens,
            partial(text_cnn, depth=(6, 7), activation="sigmoid"),
            adam(1e-3),
        ),
        "vanishing",
        _STARVED,
    ),
)

VANISHING_TIME = tuple(
    sick(name, training(task, net, adam(1e-3)), "vanishing-time", _STARVED)
    for name, task, net in (
        (
            "tanh-rnn-forgets",
            _long,
            partial(
                rnn, kind="SimpleRNN", recurrent_initializer=partial(_turning, 0.5)
            ),
        ),
        (
            "sigmoid-rnn-on-tokens",
            _long_tokens,
            partial(rnn, kind="SimpleRNN", activation="sigmoid"),
        ),
        (
            "gru-with-closed-memory",
            _long,
            partial(rnn, kind="GRU", bias_initializer=partial(_forgetful, 3, 0)),
        ),
        (
            "lstm-with-closed-memory",
            _long_tokens,
            partial(
                rnn,
                unit_forget_bias=False,
                bias_initializer=partial(_forgetful, 4, 1),
            ),
        ),
        (
            "relu-rnn-two-layers",
            _long,
            partial(
                rnn,
                kind="SimpleRNN",
                depth=2,
                activation="relu",
                recurrent_initializer=partial(_turning, 0.5),
            ),
        ),
    )
)

EXPLODING = tuple(
    sick(name, training(task, net, optimizer), "exploding", _THROWN)
    for name, task, net, optimizer in (
        (
            "relu-mlp-large-start",
            blobs,
            partial(mlp, depth=(8, 10), init=gain(4.0)),
            adam(1e-3),
        ),
        (
            "cnn-large-start",
            images,
            partial(cnn, depth=(7, 8), width=8, init=gain(4.0)),
            adam(1e-3),
        ),
        (
            "tanh-mlp-large-start",
            blobs,
            partial(mlp, depth=(9, 11), activation="tanh", init=gain(6.0)),
            adam(3e-4),
        ),
        (
            "residual-without-norm",
            blobs,
            partial(residual_mlp, depth=(8, 9), norm=False, init=gain(2.0)),
            adam(1e-3),
        ),
        (
            "relu-rnn-grows",
            partial(sequences, steps=30, early=True),
            partial(
                rnn,
                kind="SimpleRNN",
                activation="relu",
                recurrent_initializer=partial(_turning, 2.2),
            ),
            adam(1e-4),
        ),
        (
            "transformer-without-norm",
            tokens,
            partial(transformer, blocks=(4, 5), norm="none", init=gain(2.5)),
            adam(1e-3),
        ),
        # Just past what plain descent bears: each step overshoots a little more.
        ("linear-overshoots", regression, partial(mlp, depth=0), sgd(1.2)),
    )
)

FAMILIES = VANISHING + VANISHING_TIME + EXPLODING
