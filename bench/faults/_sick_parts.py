"""Runs in which one part of the model is cut off, held, let loose, or too loud."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from ._data import Data, Rng, blobs, images, regression, sequences, tokens, two_tasks
from ._fit import Prepare, adam, sgd, sick, training
from ._nets import cnn, dense_block, mlp, two_heads
from ._nets_sequence import rnn, text_cnn, transformer, word_bag


class _Cut(layers.Layer):
    """Hands its input on, but no gradient back: one that was left in."""

    def call(self, x: Any) -> Any:
        return ops.stop_gradient(x)


class _Rounded(layers.Layer):
    """Rounds, which has no slope anywhere."""

    def call(self, x: Any) -> Any:
        return ops.round(4.0 * x) / 4.0


def _cut_at(layer: str, net: Any, with_: Any = _Cut) -> Any:
    """Returns the same net with its gradient cut behind a layer."""

    def build(rng: Rng, data: Data) -> keras.Model:
        model = net(rng, data)

        def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
            y = operation(*args, **kwargs)
            return with_(name="cut")(y) if operation.name == layer else y

        return keras.models.clone_model(model, call_function=call)

    return build


def _one_of_two(rng: Rng, n: int) -> Data:
    """Labels for two outputs, and a loss for one."""
    data = blobs(rng, n)
    y = {"kind": data.y, "side": np.zeros((n, 1), "float32")}
    return data._replace(y=y, loss={"kind": data.loss})


def _unused_branch(rng: Rng, data: Data) -> keras.Model:
    """Two outputs, of which the loss asks for one."""
    base = mlp(rng, data)
    side = dense_block(base.layers[1].output, 16, "relu", "side")
    side = layers.Dense(1, name="side_head")(side)
    return keras.Model(base.input, {"kind": base.output, "side": side})


_OTHERWISE = "vanishing dead-layer stuck-loss small-updates frozen"

UNREACHED = (
    *(
        sick(name, training(task, net, adam(3e-3)), "unreached", _OTHERWISE)
        for name, task, net in (
            ("stop-gradient-mlp", blobs, _cut_at("hidden_1", partial(mlp, depth=3))),
            ("stop-gradient-cnn", images, _cut_at("conv_0", cnn)),
            (
                "stop-gradient-transformer",
                tokens,
                _cut_at("block_0", partial(transformer, blocks=2)),
            ),
            (
                "rounding-mlp",
                regression,
                _cut_at("hidden_0", partial(mlp, depth=3), _Rounded),
            ),
        )
    ),
    sick(
        "unused-branch",
        training(_one_of_two, _unused_branch, adam(3e-3)),
        "unreached",
        _OTHERWISE,
    ),
)


def held(*names: str) -> Prepare:
    """Freezes layers as they are drawn, at their random beginning."""

    def prepare(rng: Rng, model: keras.Model, data: Data) -> None:
        del rng, data
        for name in names:
            model.get_layer(name).trainable = False

    return prepare


def let_loose(*names: str) -> Prepare:
    """Freezes layers, then thaws their weights one by one: the layers still say no.

    Keras asks each weight, not its layer, whether it trains.
    """

    def prepare(rng: Rng, model: keras.Model, data: Data) -> None:
        held(*names)(rng, model, data)
        for name in names:
            for weight in model.get_layer(name).weights:
                weight.trainable = True

    return prepare


_HELD = (
    ("mlp", blobs, partial(mlp, depth=3), ("hidden_0", "hidden_1")),
    ("cnn", images, partial(cnn, depth=3), ("conv_0", "conv_1")),
    ("embedding", tokens, word_bag, ("front",)),
    ("lstm", sequences, rnn, ("recurrent_0",)),
    (
        "transformer",
        tokens,
        partial(transformer, blocks=2),
        ("block_0_attention", "block_0_up", "block_0_down"),
    ),
)

FROZEN = tuple(
    sick(
        f"frozen-{name}",
        training(task, net, adam(3e-3), prepare=held(*names)),
        "frozen",
        "stuck-loss",
    )
    for name, task, net, names in _HELD
)
NOT_FROZEN = tuple(
    sick(
        f"not-frozen-{name}",
        training(task, net, adam(3e-3), prepare=let_loose(*names)),
        "not-frozen",
    )
    for name, task, net, names in _HELD
)


def _loud(net: Any, scale: float = 1e3) -> Any:
    """Returns the net beside a small branch that is multiplied before it joins.

    The branch starts so small that the product is of ordinary size.
    """

    def build(rng: Rng, data: Data) -> keras.Model:
        base = net(rng, data)
        x = layers.Flatten(name="loud_flat")(base.layers[1].output)
        small = keras.initializers.RandomNormal(stddev=0.1 / scale)
        x = layers.Dense(data.units, kernel_initializer=small, name="loud")(x)
        x = layers.Rescaling(scale, name="louder")(x)
        return keras.Model(base.input, layers.Add(name="sum")([base.output, x]))

    return build


def _raw_column(rng: Rng, data: Data) -> keras.Model:
    """A dense layer of its own for columns in their thousands."""
    picture, column = (keras.Input(x.shape[1:]) for x in data.x)
    base = cnn(rng, data._replace(x=data.x[0]))
    x = layers.Dense(
        data.units,
        kernel_initializer=keras.initializers.RandomNormal(stddev=1e-5),
        name="column",
    )(column)
    return keras.Model([picture, column], base(picture) + x)


def _priced(rng: Rng, n: int) -> Data:
    data = images(rng, n)
    price = 1e4 * rng.lognormal(size=(n, 3))
    return data._replace(x=[data.x, price.astype("float32")])


_BESIDE = (
    "exploding large-updates small-updates initialisation noise stuck-loss saturated "
    "dead-units dead-layer vanishing"
)

DOMINATING_LAYER = tuple(
    sick(name, training(task, net, optimizer), "dominating-layer", _BESIDE)
    for name, task, net, optimizer in (
        ("loud-branch-mlp", blobs, _loud(mlp), adam(3e-5)),
        ("loud-branch-cnn", images, _loud(cnn), sgd(1e-9)),
        ("loud-branch-lstm", sequences, _loud(rnn), adam(3e-5)),
        ("raw-column-beside-cnn", _priced, _raw_column, adam(1e-5)),
    )
)

_SHOUTING = (
    "dominating-layer exploding large-updates small-updates noise stuck-loss "
    "saturated dead-units dead-layer"
)
_HEADS = (
    ("heavy-head-mlp", blobs, mlp, 1.0, {"kind": 1.0, "place": 1e4}),
    ("heavy-head-lstm", sequences, rnn, 1.0, {"kind": 1e4, "place": 1.0}),
    ("raw-targets-cnn", images, cnn, 300.0, None),
    ("raw-targets-transformer", tokens, transformer, 300.0, None),
)

DOMINATING_HEAD = tuple(
    sick(
        name,
        training(
            partial(two_tasks, of=task, scale=scale),
            partial(two_heads, trunk=trunk),
            adam(1e-3),
            loss_weights=weights,
        ),
        "dominating-head",
        _SHOUTING,
    )
    for name, task, trunk, scale, weights in _HEADS
)

_sparse_words = partial(tokens, vocabulary=2400)

IDLE_ROWS = tuple(
    sick(name, training(_sparse_words, net, optimizer), "idle-rows")
    for name, net, optimizer in (
        ("idle-rows-bag", word_bag, adam(0.01)),
        ("idle-rows-lstm", rnn, adam(0.005)),
        ("idle-rows-text-cnn", text_cnn, sgd(0.3)),
        ("idle-rows-transformer", transformer, adam(1e-3)),
    )
)

FAMILIES = (
    *UNREACHED,
    *FROZEN,
    *NOT_FROZEN,
    *DOMINATING_LAYER,
    *DOMINATING_HEAD,
    *IDLE_ROWS,
)
