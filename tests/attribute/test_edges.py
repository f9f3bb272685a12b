"""Arguments that look like others: functions of any kind, images without channels."""

import functools
import warnings

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch import attribute

from .models import close, fill, numbers

TARGET = gw.class_score(1)


@functools.cache
def linear():
    return fill(keras.Sequential([keras.Input((4,)), layers.Dense(2, name="head")]))


@functools.cache
def grey():
    """Images without a channel axis, which a layer adds."""
    inputs = keras.Input((6, 5))
    h = layers.Reshape((6, 5, 1), name="add")(inputs)
    h = layers.Flatten(name="flat")(layers.Conv2D(2, 3, name="conv")(h))
    return fill(keras.Model(inputs, layers.Dense(2, name="head")(h)))


class Ramp:
    """Baselines as methods, and as objects that can be called."""

    def half(self, values):
        return values / 2

    def __call__(self, values):
        return values / 2


BASELINES = {
    "a function of NumPy": (np.zeros_like, 0.0),
    "a default of its own": (lambda values, share=0.5: share * values, 0.5),
    "a method": (Ramp().half, 0.5),
    "an object": (Ramp(), 0.5),
    "a partial": (functools.partial(np.multiply, 0.5), 0.5),
}


@pytest.mark.parametrize("kind", BASELINES)
def test_any_function_of_the_values_is_a_baseline(kind):
    """It is given the values and nothing else, whatever further arguments it has."""
    baseline, share = BASELINES[kind]
    x = numbers(3, 4)
    a = gw.integrated_gradients(linear(), x, TARGET, baseline=baseline, steps=1)
    close(a.values, linear().get_weights()[0][:, 1] * x * (1 - share), 1e-5)


def test_images_without_channels_have_a_mean_and_a_blur():
    """Over both axes of space; a table still has none."""
    x = numbers(2, 6, 5)
    mean = np.broadcast_to(x.mean(axis=(1, 2), keepdims=True), x.shape)
    blur = attribute.blurred(0.6)
    for named, given in (("mean", mean), ("blur", blur(x, None).astype("float32"))):
        options = {"steps": 2}
        found = gw.integrated_gradients(grey(), x, TARGET, baseline=named, **options)
        same = gw.integrated_gradients(grey(), x, TARGET, baseline=given, **options)
        close(found.values, same.values, 1e-5)
        assert found.values.shape == x.shape
    a = gw.input_x_gradient(grey(), x, TARGET)
    blurred = attribute.quality.insertion(a, grey(), steps=2, orders=0)
    given = attribute.quality.insertion(
        a, grey(), steps=2, orders=0, baseline=blur(x, None).astype("float32")
    )
    close(blurred.scores, given.scores, 1e-5)


BAD = {
    "no samples": (
        lambda x: attribute.expected_gradients(linear(), x, TARGET, data=x, samples=0),
        "`samples` must be a whole number from 1",
    ),
    "seed of noise": (
        lambda x: gw.smoothgrad(linear(), x, TARGET, samples=2, seed=-1),
        "`seed` must be a whole number from 0. Received: -1",
    ),
    "seed of draws": (
        lambda x: attribute.expected_gradients(linear(), x, TARGET, data=x, seed="a"),
        "`seed` must be a whole number from 0",
    ),
    "seed of baselines": (lambda x: attribute.sampled(x, seed=1.5), "`seed` must be"),
    "seed of an attack": (
        lambda x: attribute.pgd(linear(), x, TARGET, epsilon=1, step=1, seed=-1),
        "`seed` must be a whole number from 0",
    ),
    "no baselines": (lambda x: attribute.sampled(x, 0), "`count` must be a whole"),
    "part of a window": (
        lambda x: attribute.occlusion(linear(), x, TARGET, window=1.5),
        "`window` must be a whole number",
    ),
    "no window": (
        lambda x: attribute.occlusion(linear(), x, TARGET, window=True),
        "`window` must be a whole number",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_number_of_things_is_refused(case):
    """With the argument's name, not with a shape that does not fit."""
    call, message = BAD[case]
    with pytest.raises(gw.GradwatchError, match=message):
        call(numbers(3, 4))


def test_a_window_may_be_a_number_of_numpy():
    """As it comes out of an array."""
    x = numbers(3, 4)
    found = attribute.occlusion(linear(), x, TARGET, window=np.int64(2))
    close(found.values, attribute.occlusion(linear(), x, TARGET, window=2).values, 1e-6)


def test_what_is_not_finite_is_not_walked_again_and_again():
    """No number of steps makes a NaN add up: it is said after the first walk."""
    x = numbers(3, 4)
    x[1, 2] = np.nan
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        a = gw.integrated_gradients(linear(), x, TARGET, steps="auto")
    assert any("after 16 steps the values are nan" in str(w.message) for w in said)
    assert (a.settings["steps"], a.settings["reached"]) == (16, False)
