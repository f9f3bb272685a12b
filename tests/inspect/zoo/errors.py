"""Mistakes that people make, and what gradwatch answers."""

import keras
import numpy as np
from keras import layers, ops

import gradwatch as gw


def small():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(3, name="hidden"),
            layers.BatchNormalization(name="norm"),
            layers.Dense(2, name="head"),
        ],
        name="small",
    )
    model.compile(loss="mse")
    return model


def two_outputs():
    inputs = keras.Input((4,))
    outputs = [layers.Dense(2, name="a")(inputs), layers.Dense(1, name="b")(inputs)]
    return keras.Model(inputs, outputs, name="two_outputs")


def towers():
    inner = [keras.Sequential([layers.Dense(2, name="dense")], name=n) for n in "ab"]
    return keras.Sequential([keras.Input((4,)), *inner], name="towers")


class Raises(layers.Layer):
    def call(self, x):
        raise RuntimeError("The layer is broken.")

    def compute_output_shape(self, shape):
        return shape


def broken():
    inner = keras.Sequential([keras.Input((4,)), Raises(name="bad")], name="inner")
    return keras.Sequential([keras.Input((4,)), inner], name="broken")


X = np.ones((3, 4), "float32")
Y = np.ones((3, 2), "float32")
OTHER = layers.Dense(2, name="hidden")

MISTAKES = {
    "unknown layer": lambda: gw.gradients(small(), X, Y, wrt=gw.activations("hiden")),
    "unknown weight": lambda: gw.gradients(small(), X, Y, wrt=gw.weights("head/kernl")),
    "a weight for a layer": lambda: gw.gradients(
        small(), X, Y, wrt=gw.activations("head/bias")
    ),
    "ambiguous": lambda: gw.gradients(
        towers(), X, target=gw.mean_output(), wrt=gw.activations("dense")
    ),
    "layer of another model": lambda: gw.gradients(
        small(), X, Y, wrt=gw.activations(OTHER)
    ),
    "no such class": lambda: gw.gradients(
        small(), X, Y, wrt=gw.activations(layers.LSTM)
    ),
    "index": lambda: gw.gradients(small(), X, Y, wrt=gw.activations(7)),
    "call that is not": lambda: gw.gradients(
        small(), X, Y, wrt=gw.activations("head@2")
    ),
    "tensor that is not": lambda: gw.gradients(
        small(), X, Y, wrt=gw.activations("head[1]")
    ),
    "input that is not": lambda: gw.gradients(small(), X, Y, wrt=gw.inputs("tokens")),
    "neither weights nor activations": lambda: gw.gradients(small(), X, Y, wrt="head"),
    "symbolic": lambda: gw.gradients(small(), keras.Input((4,), name="s"), Y),
    "wrong shape": lambda: gw.gradients(small(), X[:, :3], Y),
    "no batch axis": lambda: gw.gradients(small(), X[0], Y),
    "empty batch": lambda: gw.gradients(small(), X[:0], Y[:0]),
    "labels missing": lambda: gw.gradients(small(), X),
    "labels for nothing": lambda: gw.gradients(small(), X, Y, target=gw.class_score(0)),
    "labels of another number": lambda: gw.gradients(small(), X, Y[:2]),
    "not compiled": lambda: gw.gradients(two_outputs(), X, [Y, Y[:, :1]]),
    "class out of range": lambda: gw.gradients(small(), X, target=gw.class_score(2)),
    "classes of another number": lambda: gw.gradients(
        small(), X, target=gw.class_score([0, 1])
    ),
    "which output": lambda: gw.gradients(two_outputs(), X, target=gw.mean_output()),
    "no such output": lambda: gw.gradients(two_outputs(), X, target=gw.output("c")),
    "not one number": lambda: gw.gradients(small(), X, target=gw.output()),
    "function not one number": lambda: gw.gradients(small(), X, target=ops.square),
    "function of whole numbers": lambda: gw.gradients(
        small(), X, target=lambda out: ops.sum(ops.argmax(out, axis=1))
    ),
    "sample weights": lambda: gw.gradients(
        small(), X, Y, target=gw.loss(sample_weight=np.ones(2))
    ),
    "not a model": lambda: gw.gradients("small", X, Y),
}


def message(name):
    """The class and the text of what a mistake is answered with."""
    keras.utils.clear_session(free_memory=False)
    try:
        MISTAKES[name]()
    except gw.GradwatchError as error:
        return f"{type(error).__name__}: {error}"
    return "There was no error."
