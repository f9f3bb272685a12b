"""Models that are one matrix, so that every gradient can be written down."""

import keras
import numpy as np
from keras import layers

BATCH, WIDTH, CLASSES = 4, 3, 5

X = np.linspace(-1.5, 2, BATCH * WIDTH).reshape(BATCH, WIDTH).astype("float32")
# No two entries alike, and none of them the sum or mean of others.
KERNEL = (np.arange(WIDTH * CLASSES).reshape(WIDTH, CLASSES) ** 1.5 - 7).astype(
    "float32"
)
BIAS = np.array([0.5, -1, 2, 0.25, 3], "float32")
OUTPUT = X.astype("float64") @ KERNEL + BIAS


def linear():
    """`x KERNEL + BIAS`."""
    model = keras.Sequential(
        [keras.Input((WIDTH,), name="door"), layers.Dense(CLASSES, name="head")],
        name="linear",
    )
    model.set_weights([KERNEL, BIAS])
    return model


def two_outputs(structure=list):
    """A trunk with the matrix, then `cls` (2 units) and `reg` (1 unit)."""
    inputs = keras.Input((WIDTH,), name="door")
    trunk = layers.Dense(CLASSES, name="trunk")(inputs)
    cls, reg = (
        layers.Dense(2, name="cls")(trunk),
        layers.Dense(1, name="reg")(trunk),
    )
    outputs = {"c": cls, "r": reg} if structure is dict else structure([cls, reg])
    return keras.Model(inputs, outputs, name="two")


def segmentation():
    """One score per pixel and class: (batch, 4, 4, CLASSES)."""
    inputs = keras.Input((4, 4, WIDTH), name="door")
    return keras.Model(inputs, layers.Conv2D(CLASSES, 1, name="px")(inputs), name="seg")


PIXELS = np.linspace(-1, 1, 2 * 4 * 4 * WIDTH).reshape(2, 4, 4, WIDTH).astype("float32")


def array(tensor):
    return np.asarray(keras.ops.convert_to_numpy(tensor))
