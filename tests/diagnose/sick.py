"""Models with one fault each, and what an autopsy must say of it."""

import keras
import numpy as np
from keras import layers, ops

X = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
Z = np.array([[1.0, 0.0], [3.0, 4.0]], "float32")
"""With an exact zero in it."""
Y = np.ones((2, 1), "float32")


class Fault(layers.Layer):
    """A layer with some function inside its `call`."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, x):
        return self.function(x)


class Weighted(layers.Layer):
    """Keeps a gradient going back to a weight; starts as the identity."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, x):
        return x * self.scale


class Subclassed(keras.Model):
    """Some code of its own between two layers."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.first = Weighted(name="first")
        self.second = head("second")
        self.function = function

    def call(self, x):
        return self.second(self.function(self.first(x)))


def head(name="head", **options):
    options.setdefault("kernel_initializer", "ones")
    return layers.Dense(1, name=name, **options)


def chain(*parts, shape=(2,), loss="mse", optimizer="sgd", **options):
    model = keras.Sequential([keras.Input(shape), *parts], **options)
    model.compile(optimizer, loss=loss)
    return model


def faulty(function, **options):
    """The fault inside the `call` of a layer, behind a weight."""
    fault = Fault(function, name="fault", dtype=options.pop("dtype", None))
    return chain(Weighted(name="first"), fault, head(), **options)


def functional(function, **options):
    """The fault as operations of a functional graph, behind a weight."""
    inputs = keras.Input((2,), name="data")
    outputs = head()(function(Weighted(name="first")(inputs)))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", loss="mse", **options)
    return model


def subclassed(function, **options):
    model = Subclassed(function)
    model.compile("sgd", loss="mse", **options)
    model(X)
    return model


def zero_over_zero(x):
    return (x - x) / (x - x)


def root_of_square(x):
    return ops.sqrt(ops.sum(x * x, axis=-1, keepdims=True))


def masked_log(x):
    return ops.where(x > 0, ops.log(x), 0.0)
