"""Small models for the tests of this room; every layer has a name of its own."""

import keras
import numpy as np
from keras import layers, ops

WIDTH = 3
X = np.linspace(-1, 1, 4 * WIDTH).reshape(4, WIDTH).astype("float32")
SEQUENCE = np.linspace(-1, 1, 2 * 4 * WIDTH).reshape(2, 4, WIDTH).astype("float32")


def dense(name, units=WIDTH, **options):
    return layers.Dense(units, name=name, **options)


def do(function, name, shape=None):
    """A Lambda layer."""
    return layers.Lambda(function, name=name, output_shape=shape)


def chain(*parts, shape=(WIDTH,), dtype="float32", name="demo"):
    """Layers one after the other, as a functional model."""
    inputs = outputs = keras.Input(shape, dtype=dtype, name="door")
    for part in parts:
        outputs = part(outputs)
    return keras.Model(inputs, outputs, name=name)


def mlp(units=2, compiled=True):
    """hidden → head, compiled with the mean squared error."""
    model = keras.Sequential(
        [
            keras.Input((WIDTH,), name="door"),
            dense("hidden", 4, activation="tanh"),
            dense("head", units),
        ],
        name="demo",
    )
    if compiled:
        model.compile(loss="mse", optimizer="sgd")
    return model


def array(tensor):
    return np.asarray(keras.ops.convert_to_numpy(tensor))


def stop(x):
    return ops.stop_gradient(x)
