"""Gradients equal those of a hand-written tape, `jax.grad` or `backward()`."""

import keras
import numpy as np
import pytest
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask

import gradwatch as gw

from .addresses import weight_at
from .cases import CASES, each, named
from .frameworks import (
    BACKEND,
    array,
    at_random_state,
    double_precision,
    hand_gradient,
    hand_written,
    quick_compilation,
    tensors,
)
from .looks import EVERYTHING, look, prepared
from .reference import apart, digest, load

FULL = named("half", "large")


@pytest.fixture(autouse=True)
def quick():
    with quick_compilation():
        yield


def differences(model, gradients, twin, tolerance):
    """The names of weights and inputs whose gradient is not that of the twin."""
    value, weights, inputs = twin
    assert float(array(gradients.value)) == pytest.approx(
        float(array(value)), rel=tolerance
    )
    kinds = {row.name: row.kind for row in gradients.summary()}
    names = {
        kind: [n for n in gradients if kinds[n] == kind] for kind in ("weight", "input")
    }
    of = zip(model.trainable_variables, weights, strict=True)
    by_variable = {id(variable): gradient for variable, gradient in of}
    assert len(names["weight"]) == len(by_variable)
    expected = {n: by_variable[id(weight_at(model, n))] for n in names["weight"]}
    expected |= dict(zip(names["input"], inputs, strict=True))
    return [n for n in expected if not alike(gradients[n], expected[n], tolerance)]


def keras_can_train(name):
    """On torch, Keras 3.15 changes the state of an RNN before it is differentiated."""
    return not (BACKEND == "torch" and "stateful" in CASES[name].tags)


def alike(found, expected, tolerance):
    found, expected = array(found), array(expected)
    # A bias before a normalisation has no gradient at all, but for rounding.
    allowed = tolerance * np.linalg.norm(expected) + 1e-3 * tolerance
    return np.linalg.norm(found - expected) <= allowed


@each([n for n in FULL if keras_can_train(n)])
def test_weights_and_inputs_equal_the_hand_written_recipe(name):
    """In float64, for the loss in training mode: to the last digits but a few."""
    with double_precision():
        seen = look(name)
        with at_random_state(seen.random_state):
            twin = hand_written(seen.model, seen.x, seen.y)
        assert differences(seen.model, seen.gradients, twin, 1e-9) == []


@pytest.mark.parametrize("name", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_equals_the_hand_written_recipe(name):
    """The hand-written recipe does not scale the loss: gradients come unscaled."""
    model, x, y = prepared(name)
    gradients = gw.gradients(model, x, y, wrt=EVERYTHING)
    tolerance = 2e-3 if name == "mixed_float16" else 2e-2
    assert differences(model, gradients, hand_written(model, x, y), tolerance) == []


def test_mobilenet_equals_the_hand_written_recipe():
    """All 158 weights of a real network, whose `variable.name`s are 4."""
    with double_precision():
        model, x, y = prepared("mobilenet")
        gradients = gw.gradients(model, x, y, wrt=[gw.weights(), gw.inputs()])
        assert len(gradients) == 158 + 1
        found = {n: digest(n, g) for n, g in gradients.items()}
        assert apart(found, load()["mobilenet"], 1e-5) == []
        if BACKEND != "jax":  # where compiling it a second time takes half a minute
            assert differences(model, gradients, hand_written(model, x, y), 1e-6) == []


SPLITS = [("mlp", "narrow"), ("cnn", "relu"), ("lstm", "lstm"), ("masked", "dense")]


@pytest.mark.parametrize(("name", "layer"), SPLITS)
def test_activations_equal_those_of_a_model_cut_in_two(name, layer):
    """The rest of the model is a function of the activation: differentiate that."""
    with double_precision():
        model, x, _ = prepared(name)
        place = [each.name for each in model.layers].index(layer) + 1

        def first(tensor):
            for each in model.layers[:place]:
                tensor = each(tensor)
            return tensor

        mask = get_keras_mask(first(tensors(x)))

        def rest(tensor):
            set_keras_mask(tensor, mask)
            for each in model.layers[place:]:
                tensor = each(tensor)
            return keras.ops.mean(keras.ops.square(tensor) * keras.ops.cos(tensor))

        def target(outputs):
            return keras.ops.mean(keras.ops.square(outputs) * keras.ops.cos(outputs))

        expected = hand_gradient(rest, first(tensors(x)))
        found = gw.gradients(model, x, target=target, wrt=gw.activations(layer))
        assert list(found) == [layer]
        assert alike(found[layer], expected, 1e-9)
