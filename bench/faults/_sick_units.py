"""Runs whose units answer nothing, or always the same; some only in the end."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np

from ._data import (
    Data,
    Rng,
    blobs,
    images,
    regression,
    same,
    sequences,
    tokens,
    unscaled,
)
from ._fit import Prepare, adam, sgd, sick, training
from ._nets import autoencoder, cnn, mlp, normal
from ._nets_sequence import rnn, text_cnn, transformer

# No gradient passes a dead layer: what lies below it stands still.
_CUT = "unreached vanishing stuck-loss small-updates fading"
_NUMB = "vanishing stuck-loss small-updates fading noise"


def biased(layer: str, low: float, high: float, share: float = 1.0) -> Prepare:
    """Gives a share of a layer's units a bias between `low` and `high`."""

    def prepare(rng: Rng, model: keras.Model, data: Data) -> None:
        del data
        bias = model.get_layer(layer).bias
        drawn = rng.uniform(low, high, size=bias.shape)
        chosen = rng.permutation(np.arange(drawn.size) < share * drawn.size)
        bias.assign(np.where(chosen, drawn, 0.0))

    return prepare


def either_way(layer: str, size: float) -> Prepare:
    """Gives each unit of a layer a bias of about this size, up or down."""

    def prepare(rng: Rng, model: keras.Model, data: Data) -> None:
        del data
        bias = model.get_layer(layer).bias
        sign = rng.choice([-1.0, 1.0], size=bias.shape)
        bias.assign(sign * size * rng.uniform(1.0, 1.5, size=bias.shape))

    return prepare


_relu_transformer = partial(transformer, activation="relu", blocks=2)

DEAD_UNITS = tuple(
    sick(
        name,
        training(
            task, net, adam(3e-3), prepare=biased(layer, -60.0, -30.0, share=0.75)
        ),
        "dead-units",
    )
    for name, task, net, layer in (
        ("mlp-units-off", blobs, mlp, "hidden_0"),
        ("deep-mlp-units-off", regression, partial(mlp, depth=4), "hidden_2"),
        ("cnn-channels-off", images, cnn, "conv_1"),
        ("text-cnn-channels-off", tokens, text_cnn, "conv_0"),
        ("transformer-units-off", tokens, _relu_transformer, "block_0_up"),
    )
)

DEAD_LAYER = tuple(
    sick(
        name,
        training(task, net, adam(3e-3), prepare=biased(layer, -60.0, -30.0)),
        "dead-layer",
        f"{_CUT} dead-units",
    )
    for name, task, net, layer in (
        ("mlp-layer-off", blobs, partial(mlp, depth=3), "hidden_1"),
        ("cnn-layer-off", images, partial(cnn, depth=3), "conv_1"),
        ("autoencoder-code-off", same, autoencoder, "code"),
        ("text-cnn-layer-off", sequences, partial(text_cnn, depth=2), "conv_1"),
        ("transformer-layer-off", tokens, _relu_transformer, "block_1_up"),
    )
)

SATURATED = (
    sick(
        "tanh-mlp-raw-inputs",
        training(
            partial(unscaled, of=blobs, by=100.0),
            partial(mlp, activation="tanh"),
            adam(1e-3),
        ),
        "saturated",
        _NUMB,
    ),
    sick(
        "sigmoid-cnn-raw-pixels",
        training(
            partial(unscaled, of=images, by=80.0, shift=100.0),
            partial(cnn, depth=2, activation="sigmoid"),
            adam(1e-3),
        ),
        "saturated",
        _NUMB,
    ),
    sick(
        "tanh-mlp-wide-start",
        training(
            blobs,
            partial(mlp, activation="tanh", width=(48, 64), init=normal(3.0)),
            adam(1e-3),
        ),
        "saturated",
        f"{_NUMB} initialisation exploding dominating-layer",
    ),
    sick(
        "tanh-mlp-huge-biases",
        training(
            regression,
            partial(mlp, depth=3, activation="tanh"),
            adam(1e-3),
            prepare=either_way("hidden_1", 5.0),
        ),
        "saturated",
        f"{_NUMB} initialisation unreached",
    ),
    sick(
        "sigmoid-mlp-huge-biases",
        training(
            blobs,
            partial(mlp, depth=2, activation="sigmoid"),
            sgd(0.1),
            prepare=either_way("hidden_1", 12.0),
        ),
        "saturated",
        f"{_NUMB} initialisation unreached",
    ),
    sick(
        "lstm-behind-raw-tanh",
        training(
            partial(unscaled, of=sequences, by=100.0),
            partial(rnn, front={"activation": "tanh"}),
            adam(1e-3),
        ),
        "saturated",
        f"{_NUMB} vanishing-time",
    ),
)


def _far_targets(rng: Rng, n: int, *, of: Any = regression, size: float) -> Data:
    """Targets that the model's last activation cannot reach."""
    data = of(rng, n)
    target = size * rng.uniform(0.8, 1.2, size=(n, 1))
    return Data(data.x, target.astype("float32"), "mse", 1, data.vocabulary)


# Some way above zero, so that the descent can be seen.
_HIGH = keras.initializers.Constant(1.0)
_AT_THE_END = "saturated dead-units dead-layer unreached vanishing stuck-loss"

FADING = (
    sick(
        "weight-decay-eats-mlp",
        training(
            blobs,
            partial(mlp, depth=4),
            sgd(0.01, weight_decay=12.0),
        ),
        "fading",
        f"{_AT_THE_END} initialisation large-updates small-updates",
    ),
    sick(
        "weight-decay-eats-cnn",
        training(
            images,
            partial(cnn, depth=4),
            sgd(0.01, weight_decay=12.0),
        ),
        "fading",
        f"{_AT_THE_END} initialisation large-updates small-updates",
    ),
    sick(
        "relu-output-below-zero",
        training(
            partial(_far_targets, size=-3.0),
            partial(mlp, last={"activation": "relu", "bias_initializer": _HIGH}),
            adam(4e-3),
        ),
        "fading",
        _AT_THE_END,
    ),
    sick(
        "sigmoid-output-out-of-reach",
        training(
            partial(_far_targets, of=images, size=10.0),
            partial(cnn, last={"activation": "sigmoid"}),
            adam(0.02),
        ),
        "fading",
        _AT_THE_END,
    ),
    sick(
        "tanh-output-out-of-reach",
        training(
            partial(_far_targets, of=tokens, size=25.0),
            partial(rnn, kind="GRU", last={"activation": "tanh"}),
            adam(0.02),
        ),
        "fading",
        f"{_AT_THE_END} vanishing-time",
    ),
)

FAMILIES = DEAD_UNITS + DEAD_LAYER + SATURATED + FADING
