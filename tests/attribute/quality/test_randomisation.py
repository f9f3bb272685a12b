"""Weights drawn at random: which explanations notice, and that all comes back."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch import attribute
from gradwatch.attribute import quality
from gradwatch.attribute.quality._reinitialise import _assign_all
from gradwatch.attribute.quality._similarity import ssim
from gradwatch.testing import assert_untouched

from ..models import CLASSES, TOKENS, X, close, fill, numbers

TARGET = gw.class_score(CLASSES)


def test_guided_backpropagation_fails_and_gradients_pass(trained):
    """The paper's headline, on a CNN that learnt something."""
    model, x, y = trained
    target = gw.class_score(y)
    with assert_untouched(model):
        guided = attribute.guided_backprop(model, x, target)
        found = quality.randomisation(guided, model)
        assert found.passed is False
        assert found.similarity > 0.6
        assert "guided_backprop" in repr(found)
        assert "from the last 2 to all of 4 layers drawn at random" in repr(found)
        assert "FAILS" in repr(found)
        by_itself = quality.randomisation(guided, model, order="independent")
        assert by_itself.passed is False
        for a in (
            gw.saliency(model, x, target, absolute=False),
            gw.input_x_gradient(model, x, target),
        ):
            found = quality.randomisation(a, model)
            assert found.passed is True, found
            assert found.similarity < 0.4
            assert "It passes" in repr(found)


def test_without_signs_likeness_is_no_verdict(trained):
    """Where the input is strong, every gradient is large: nobody is accused."""
    model, x, y = trained
    a = gw.saliency(model, x, gw.class_score(y))
    found = quality.randomisation(a, model, layers="head")
    assert np.array_equal(found.absolute, found.signed)
    assert found.signs is False
    assert found.similarity > 0.5
    assert found.passed is None
    assert "Without signs" in repr(found)


class Spy:
    """Explains, and notes the weights and the values of each call."""

    def __init__(self, a, raises=None):
        self.a, self.raises = a, raises
        self.weights, self.values = [], []

    def __call__(self, model, x):
        if self.raises and len(self.weights) == 2:
            raise self.raises
        self.weights.append([w.copy() for w in model.get_weights()])
        found = self.a.again(model, x)
        self.values.append(found.values)
        return found


def spied(a, raises=None):
    spy = Spy(a, raises)
    return spy, replace(a, again=spy)


@pytest.mark.parametrize("order", ["cascading", "independent"])
def test_layers_are_drawn_from_the_output_down(image_model, order):
    """Each run sees random weights in the layers that are due, and in no others."""
    a = gw.input_x_gradient(image_model, X, TARGET)
    spy, seen = spied(a)
    with assert_untouched(image_model):
        found = quality.randomisation(seen, image_model, order=order, seed=2)
    assert found.layers == ["head", "hidden", "mid", "conv"]
    kernels = {"conv": 0, "mid": 2, "hidden": 4, "head": 6}
    for number in range(4):
        due = found.layers[: number + 1]
        if order == "independent":
            due = [found.layers[number]]
        for name, place in kernels.items():
            now, before = spy.weights[number + 1][place], spy.weights[0][place]
            assert np.array_equal(now, before) == (name not in due), (number, name)
            if name in due:  # Glorot's uniform, as the layer began
                shape = before.shape
                field = np.prod(shape[:-2]) if len(shape) > 2 else 1
                limit = (6 / (field * (shape[-2] + shape[-1]))) ** 0.5
                assert 0.7 * limit < np.abs(now).max() <= limit
                assert not spy.weights[number + 1][place + 1].any()  # the bias
    stats = pytest.importorskip("scipy.stats")
    for number, values in enumerate(spy.values[1:]):
        for n in range(3):
            one, two = spy.values[0][n].ravel(), values[n].ravel()
            signed = stats.spearmanr(one, two).statistic
            absolute = stats.spearmanr(np.abs(one), np.abs(two)).statistic
            assert abs(found.signed[number, n] - signed) < 1e-9
            assert abs(found.absolute[number, n] - absolute) < 1e-9
            maps = [np.abs(v[n]).sum(axis=-1) for v in (spy.values[0], values)]
            maps = [m.astype("float64") / m.max() for m in maps]
            assert abs(found.ssim[number, n] - ssim(*maps)) < 1e-5
    again = quality.randomisation(a, image_model, order=order, seed=2)
    close(again.signed, found.signed, 1e-6)


@pytest.mark.parametrize(
    "raises", [RuntimeError("broken"), KeyboardInterrupt("broken")]
)
def test_whatever_happens_the_weights_come_back(image_model, raises):
    """After an error and after Ctrl-C, to the bit."""
    spy, a = spied(gw.saliency(image_model, X, TARGET), raises)
    with assert_untouched(image_model):
        with pytest.raises(type(raises), match="broken"):
            quality.randomisation(a, image_model)
    assert not np.array_equal(spy.weights[0][6], spy.weights[1][6])


def test_who_interrupts_while_the_weights_come_back_waits():
    """The rest is still put back, then the interruption goes on."""

    class Variable:
        value, patience = 0, 1

        def assign(self, value):
            self.patience -= 1
            if self.patience == 0 and value == 2:
                raise KeyboardInterrupt("now")
            self.value = value

    variables = [Variable() for _ in range(3)]
    with pytest.raises(KeyboardInterrupt, match="now"):
        _assign_all(variables, [1, 2, 3])
    assert [v.value for v in variables] == [1, 2, 3]


def test_some_layers_only(image_model):
    """By any selector; the others keep what they learnt."""
    a = gw.input_x_gradient(image_model, X, TARGET)
    spy, seen = spied(a)
    found = quality.randomisation(seen, image_model, layers=["conv", "mid"])
    assert found.layers == ["mid", "conv"]
    assert all(np.array_equal(w[6], spy.weights[0][6]) for w in spy.weights)


class Scaled(layers.Layer):
    """A layer of one's own, whose weight has no initialiser that could be asked."""

    def build(self, shape):
        self.factor = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x):
        return x * self.factor


def test_weights_without_an_initialiser_are_drawn_like_themselves(text_model):
    """Their own mean and spread; embeddings and nested layers are found as well."""
    inner = keras.Sequential([Scaled(name="own"), layers.Dense(2, name="head")])
    model = keras.Sequential([keras.Input((500,)), inner])
    fill(model)
    factor = inner.get_layer("own").factor
    factor.assign(numbers(500, seed=3) * 0.1 + 5)
    spy, a = spied(gw.input_x_gradient(model, numbers(2, 500), gw.class_score(1)))
    with assert_untouched(model):
        found = quality.randomisation(a, model)
    assert [name.rsplit("/")[-1] for name in found.layers] == ["head", "own"]
    before, now = spy.weights[0][0], spy.weights[2][0]
    assert not np.array_equal(before, now)
    assert abs(now.mean() - 5) < 0.05
    assert 0.08 < now.std() < 0.12
    assert found.ssim is None  # a table is no picture
    a = gw.input_x_gradient(text_model, TOKENS, TARGET, layer="embed")
    assert quality.randomisation(a, text_model).layers[-1] == "embed"


def test_layers_that_the_target_does_not_need_are_left_out():
    """Another output, and what lies behind a neuron: no explanation need notice."""
    inputs = keras.Input((5,))
    h = layers.Dense(4, activation="tanh", name="hidden")(inputs)
    heads = [layers.Dense(2, name=name)(h) for name in ("one", "two")]
    model = fill(keras.Model(inputs, heads))
    x = numbers(3, 5)
    a = gw.input_x_gradient(model, x, gw.class_score(1, output="one"))
    for order in ("cascading", "independent"):
        found = quality.randomisation(a, model, order=order)
        assert found.layers == ["one", "hidden"]
        assert found.without_effect == ("two",)
        assert found.signed.shape == (2, 3)
    a = gw.saliency(model, x, gw.neuron("hidden", 2), absolute=False)
    assert quality.randomisation(a, model).layers == ["hidden"]
    with pytest.raises(gw.GradwatchError, match="`layers` must be some .*'two', 'one'"):
        quality.randomisation(a, model, layers=["one", "two"])


def test_nothing_left_to_compare_is_said():
    """An explanation that is the same everywhere has no order."""
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2, name="flat")])
    model.get_layer("flat").set_weights([np.ones((3, 2)), np.ones(2)])
    a = gw.saliency(model, np.ones((2, 3), "float32"), gw.class_score(0))
    found = quality.randomisation(a, model)
    assert np.isnan(found.similarity)
    assert found.passed is None
    assert "nothing is left that could be compared" in repr(found)
