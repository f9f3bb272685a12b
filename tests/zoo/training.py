"""Kinds told apart by how they are fed, compiled, saved and trained."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import keras
from keras import layers, ops

from .case import Built, compiled, from_logits, numbers, whole_numbers


def several_inputs() -> Built:
    """A list of inputs, one of them of whole numbers."""
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
    tokens = keras.Input((2,), dtype="int32", name="tokens")
    looked_up = layers.Flatten(name="flat")(
        layers.Embedding(5, 3, name="embed")(tokens)
    )
    joined = layers.Concatenate(name="join")([a * 2, b, looked_up])
    outputs = layers.Dense(2, activation="tanh", name="head")(joined)
    model = keras.Model([a, b, tokens], outputs, name="several_inputs")
    x = [numbers(4), numbers(3, seed=1), whole_numbers(5, 2)]
    return compiled(model), x, numbers(2, seed=2)


def dict_inputs() -> Built:
    """Inputs by key, in a subclassed model."""

    class Keyed(keras.Model):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.user = layers.Dense(3, activation="tanh", name="user")
            self.item = layers.Dense(3, activation="tanh", name="item")
            self.head = layers.Dense(2, name="head")

        def call(self, x: Any) -> Any:
            return self.head(self.user(x["user"]) * self.item(x["item"]))

    model = Keyed(name="dict_inputs")
    x = {"user": numbers(4), "item": numbers(3, seed=1)}
    model({"user": ops.zeros((1, 4)), "item": ops.zeros((1, 3))})
    return compiled(model), x, numbers(2, seed=2)


def _two_heads() -> tuple[Any, Any, Any]:
    inputs = keras.Input((4,))
    trunk = layers.Dense(5, activation="tanh", name="trunk")(inputs)
    return (
        inputs,
        layers.Dense(3, name="kind")(trunk),
        layers.Dense(2, name="place")(trunk),
    )


def list_outputs() -> Built:
    """Two outputs with different losses and loss weights."""
    inputs, kind, place = _two_heads()
    model = keras.Model(inputs, [kind, place], name="list_outputs")
    compiled(model, loss=[from_logits(), "mse"], loss_weights=[0.7, 1.9])
    return model, numbers(4), [whole_numbers(3), numbers(2, seed=1)]


def dict_outputs() -> Built:
    """Outputs by key, with different losses and loss weights."""
    inputs, kind, place = _two_heads()
    model = keras.Model(inputs, {"kind": kind, "place": place}, name="dict_outputs")
    compiled(
        model,
        loss={"kind": from_logits(), "place": "mae"},
        loss_weights={"kind": 0.3, "place": 2.5},
    )
    return model, numbers(4), {"kind": whole_numbers(3), "place": numbers(2, seed=1)}


def _mixed(name: str, policy: str, optimizer: Any) -> Built:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        inputs = keras.Input((6, 3))
        x = layers.Conv1D(4, 2, activation="tanh", name="conv")(inputs)
        x = layers.LayerNormalization(name="norm")(x)
        x = layers.GlobalAveragePooling1D(name="pool")(x)
        outputs = layers.Dense(3, dtype="float32", name="head")(x)
    finally:
        keras.config.set_dtype_policy(before)
    model = keras.Model(inputs, outputs, name=name)
    compiled(model, loss=from_logits(), optimizer=optimizer)
    return model, numbers(6, 3), whole_numbers(3)


def mixed_float16() -> Built:
    """Half precision with loss scaling, which the gradients must not show."""
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(1.0), initial_scale=256.0
    )
    return _mixed("mixed_float16", "mixed_float16", optimizer)


def mixed_bfloat16() -> Built:
    """Brain half precision, without loss scaling."""
    return _mixed("mixed_bfloat16", "mixed_bfloat16", keras.optimizers.SGD(1.0))


def frozen() -> Built:
    """A frozen block under a trainable head."""
    backbone = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(5, activation="tanh", name="dense"),
            layers.BatchNormalization(name="norm"),
        ],
        name="backbone",
    )
    backbone.trainable = False
    model = keras.Sequential(
        [keras.Input((4,)), backbone, layers.Dense(2, name="head")], name="frozen"
    )
    return compiled(model), numbers(4), numbers(2, seed=1)


class _Penalty(layers.Layer):
    def call(self, x: Any) -> Any:
        self.add_loss(0.3 * ops.mean(ops.square(x)))
        return x


def added_loss() -> Built:
    """A layer that adds to the loss and hands its input on."""
    inputs = keras.Input((4,))
    x = layers.Dense(5, activation="tanh", name="dense")(inputs)
    x = _Penalty(name="penalty")(x)
    model = keras.Model(inputs, layers.Dense(2, name="head")(x), name="added_loss")
    return compiled(model), numbers(4), numbers(2, seed=1)


def regularised() -> Built:
    """Kernel, bias and activity regularisers, also in a nested model."""
    inner = keras.Sequential(
        [keras.Input((4,)), layers.Dense(5, kernel_regularizer="l2", name="dense")],
        name="inner",
    )
    model = keras.Sequential(
        [
            keras.Input((4,)),
            inner,
            layers.Dense(
                4,
                activation="tanh",
                bias_regularizer=keras.regularizers.L2(0.3),
                activity_regularizer=keras.regularizers.L2(0.2),
                name="active",
            ),
            layers.Dense(
                2, kernel_regularizer=keras.regularizers.L1L2(0.1, 0.2), name="head"
            ),
        ],
        name="regularised",
    )
    return compiled(model), numbers(4), numbers(2, seed=1)


class _OwnLoss(keras.Model):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.encoder = layers.Dense(2, activation="tanh", name="encoder")
        self.decoder = layers.Dense(4, name="decoder")

    def call(self, x: Any) -> Any:
        return self.decoder(self.encoder(x))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        del y, sample_weight, training
        return ops.mean(ops.square(x - y_pred)) + 0.1 * ops.sum(ops.abs(y_pred))


def own_compute_loss() -> Built:
    """An autoencoder whose `compute_loss` needs no labels."""
    model = _OwnLoss(name="own_compute_loss")
    model(ops.zeros((1, 4)))
    model.compile(optimizer=keras.optimizers.SGD(1.0))
    return model, numbers(4), None


class _Unbuilt(keras.Model):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hidden = layers.Dense(5, activation="tanh", name="hidden")
        self.head = layers.Dense(2, name="head")

    def call(self, x: Any) -> Any:
        return self.head(self.hidden(x))


def unbuilt_subclassed() -> Built:
    """A subclassed model that has not seen data, and so has no weights."""
    return compiled(_Unbuilt(name="unbuilt_subclassed")), numbers(4), numbers(2, seed=1)


def unbuilt_sequential() -> Built:
    """A sequential model without an input shape."""
    model = keras.Sequential(
        [
            layers.Dense(5, activation="tanh", name="hidden"),
            layers.Dense(2, name="head"),
        ],
        name="unbuilt_sequential",
    )
    return compiled(model), numbers(4), numbers(2, seed=1)


def loaded() -> Built:
    """A model saved to a `.keras` file and loaded again."""
    inputs = keras.Input((4, 3))
    inner = keras.Sequential(
        [
            keras.Input((4, 3)),
            layers.Conv1D(4, 2, name="conv"),
            layers.ReLU(name="relu"),
        ],
        name="inner",
    )
    shared = layers.Dense(4, name="shared")
    x = layers.GlobalAveragePooling1D(name="pool")(shared(inner(inputs)))
    outputs = layers.Dense(3, name="head")(shared(x))
    model = compiled(keras.Model(inputs, outputs, name="loaded"), loss=from_logits())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        model.save(file)
        model = keras.models.load_model(file)
    return model, numbers(4, 3), whole_numbers(3)


def rematerialised() -> Built:
    """Layers whose activations are computed again in the backward pass."""
    inputs = keras.Input((4,))
    with keras.RematScope(mode="full"):
        x = layers.Dense(5, activation="tanh", name="first")(inputs)
        x = layers.Dense(5, activation="tanh", name="second")(x)
    model = keras.Model(inputs, layers.Dense(2, name="head")(x), name="rematerialised")
    return compiled(model), numbers(4), numbers(2, seed=1)


def mobilenet() -> Built:
    """MobileNetV2 at its smallest, without trained weights."""
    model = keras.applications.MobileNetV2(
        (32, 32, 3), alpha=0.35, weights=None, classes=3, classifier_activation=None
    )
    model.name = "mobilenet"
    return compiled(model, loss=from_logits()), numbers(32, 32, 3), whole_numbers(3)


KINDS = (
    several_inputs,
    dict_inputs,
    list_outputs,
    dict_outputs,
    mixed_float16,
    mixed_bfloat16,
    frozen,
    added_loss,
    regularised,
    own_compute_loss,
    unbuilt_subclassed,
    unbuilt_sequential,
    loaded,
    rematerialised,
    mobilenet,
)
