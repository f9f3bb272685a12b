"""Small models for the tests of this room, with weights that are always the same."""

import keras
import numpy as np
from keras import layers

SHAPE = (6, 5, 2)
BATCH = 3
CLASSES = np.array([2, 0, 1])
"""One class per example, all different."""


def numbers(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("float32")


X = numbers(BATCH, *SHAPE, seed=1)
START = numbers(BATCH, *SHAPE, seed=2, scale=0.3)
"""A baseline for each example."""


def fill(model, seed=0, scale=0.6):
    """Gives every weight a value that depends on its position only."""
    for number, weight in enumerate(model.weights):
        weight.assign(numbers(*weight.shape, seed=seed + 100 + number, scale=scale))
    return model


def cnn():
    """Rectifiers of three kinds: an argument, a layer, and a smooth function."""
    inputs = keras.Input(SHAPE, name="image")
    h = layers.Conv2D(3, 2, activation="relu", name="conv")(inputs)
    h = layers.Conv2D(4, 2, name="mid")(h)
    h = layers.ReLU(name="relu")(h)
    h = layers.Flatten(name="flat")(h)
    h = layers.Dense(5, activation="tanh", name="hidden")(h)
    outputs = layers.Dense(3, name="head")(h)
    return fill(keras.Model(inputs, outputs, name="cnn"))


def pooled(before="linear", after="relu"):
    """Max-pooling, with or without a rectifier before it."""
    inputs = keras.Input(SHAPE, name="image")
    h = layers.Conv2D(3, 2, activation=before, name="conv")(inputs)
    h = layers.MaxPooling2D(2, name="pool")(h)
    h = layers.Activation(after, name="after")(h)
    h = layers.Flatten(name="flat")(h)
    return fill(keras.Model(inputs, layers.Dense(3, name="head")(h), name="pooled"))


def text():
    """Tokens: whole numbers, an embedding, a mean."""
    inputs = keras.Input((7,), dtype="int32", name="tokens")
    h = layers.Embedding(11, 4, name="embed")(inputs)
    h = layers.Conv1D(5, 3, padding="same", activation="tanh", name="window")(h)
    h = layers.GlobalAveragePooling1D(name="mean")(h)
    return fill(keras.Model(inputs, layers.Dense(3, name="head")(h), name="text"))


TOKENS = np.random.default_rng(3).integers(1, 11, size=(BATCH, 7)).astype("int32")


def weights_of(model, name):
    found = model.get_layer(name).weights
    return [np.asarray(keras.ops.convert_to_numpy(w.value), "float64") for w in found]


def close(found, expected, tolerance=1e-4):
    """Equal, as a share of the largest number there is."""
    found, expected = np.asarray(found, "float64"), np.asarray(expected, "float64")
    assert found.shape == expected.shape
    largest = np.abs(expected).max()
    assert largest > 0, "A test of zeros tests nothing."
    error = np.abs(found - expected).max() / largest
    assert error < tolerance, f"{error:.2g} of the largest number"
