import functools

import keras
import numpy as np
import pytest
from keras import layers

from ..models import cnn, fill, numbers, text

# One model of a kind for all files: JAX takes seconds to compile each of them.
_cnn, _text = functools.cache(cnn), functools.cache(text)


@pytest.fixture(scope="module")
def image_model():
    return _cnn()


@pytest.fixture(scope="module")
def text_model():
    return _text()


@pytest.fixture(scope="module")
def linear():
    """Scores that are sums: everything about them is known."""
    return _linear()


@functools.cache
def _linear():
    return fill(keras.Sequential([keras.Input((6,)), layers.Dense(3, name="head")]))


@pytest.fixture(scope="module")
def behind_the_embedding(text_model):
    """The rest of the text model, as a model of floating-point inputs."""
    inputs = keras.Input((7, 4))
    h = inputs
    for name in ("window", "mean", "head"):
        h = text_model.get_layer(name)(h)
    return keras.Model(inputs, h)


def patches(count):
    """Noise, and somewhere in it a patch: stripes, columns or a chess board."""
    random = np.random.default_rng(0)
    x = random.normal(size=(count, 12, 12, 1)) * 0.3
    y = random.integers(3, size=count)
    at = random.integers(8, size=(count, 2))
    i, j = np.indices((5, 5))
    kinds = [np.where(n % 2, 2.0, -2.0) for n in (i, j, i + j)]
    for image, kind, (top, left) in zip(x, y, at, strict=True):
        image[top : top + 5, left : left + 5, 0] += kinds[kind]
    return x.astype("float32"), y


@pytest.fixture(scope="module")
def trained():
    """A CNN of four layers that tells the patches apart, and some of them."""
    return _trained()


@functools.cache
def _trained():
    x, y = patches(256)
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(24, 3, activation="relu", name="conv"),
            layers.Conv2D(24, 3, activation="relu", name="mid"),
            layers.Conv2D(24, 3, activation="relu", name="deep"),
            layers.GlobalAveragePooling2D(name="mean"),
            layers.Dense(3, name="head"),
        ]
    )
    for number, weight in enumerate(model.trainable_weights):  # alike everywhere
        fan_in = np.prod(weight.shape[:-1]) if len(weight.shape) > 1 else np.inf
        weight.assign(numbers(*weight.shape, seed=number, scale=(2 / fan_in) ** 0.5))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=5, shuffle=False, verbose=0)
    assert model.evaluate(x, y, verbose=0)[1] > 0.95
    return model, x[:6], y[:6]
