"""A neuron as a target: one number that a layer gives, wherever gradients are taken."""

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch import testing

from .models import array

X = np.random.default_rng(1).normal(size=(4, 3)).astype("float32")


@pytest.fixture(scope="module")
def model():
    """A layer that is called twice: 3 → 3 → 3 → 2, all linear."""
    shared = layers.Dense(3, name="shared")
    inputs = keras.Input((3,))
    model = keras.Model(inputs, layers.Dense(2, name="head")(shared(shared(inputs))))
    random = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape))
    return model


def kernel(model):
    return array(model.get_layer("shared").kernel)


def test_its_gradient_is_that_of_one_number(model):
    """Only what was asked for comes back: the layer that is read is no result."""
    g = gw.gradients(model, X, target=gw.neuron("shared@1", 2), wrt=gw.inputs())
    assert list(g) == ["inputs"]
    expected = np.tile(kernel(model)[:, 2], (4, 1))
    np.testing.assert_allclose(g.to_numpy()["inputs"], expected, rtol=1e-5)
    bias = array(model.get_layer("shared").bias)[2]
    value = (X @ kernel(model)[:, 2] + bias).sum()
    np.testing.assert_allclose(array(g.value), value, rtol=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
def test_each_call_of_a_layer_has_its_own(model, compiled):
    """`shared@2` comes after `shared@1`, and depends on it."""
    g = gw.gradients(
        model,
        X,
        target=gw.neuron("shared@2", -1),
        wrt=[gw.inputs(), gw.activations("shared@1")],
        compiled=compiled,
    ).to_numpy()
    at_first = np.tile(kernel(model)[:, 2], (4, 1))
    np.testing.assert_allclose(g["shared@1"], at_first, rtol=1e-5)
    np.testing.assert_allclose(g["inputs"], at_first @ kernel(model).T, rtol=1e-5)


def test_the_layer_itself_has_the_gradient_one_at_the_neuron(model):
    """A gradient at the tensor that is read is one there, and zero elsewhere."""
    target = gw.neuron("head", 1)
    g = gw.gradients(model, X, target=target, wrt=gw.activations("head"))
    np.testing.assert_array_equal(g.to_numpy()["head"], np.tile([0, 1], (4, 1)))


@pytest.mark.parametrize("at", ["address", "layer", "input"])
def test_the_layer_is_whatever_activations_takes(model, at):
    """An address, the layer, or what goes into one."""
    head = model.get_layer("head")
    layer = {"address": "shared@2", "layer": head}.get(at)
    layer = layer or gw.activations("head", at="input")
    g = gw.gradients(model, X, target=gw.neuron(layer, 0), wrt=gw.inputs())
    column = array(head.kernel)[:, 0] if at == "layer" else np.eye(3)[0]
    expected = kernel(model) @ kernel(model) @ column
    np.testing.assert_allclose(g.to_numpy()["inputs"][0], expected, rtol=1e-4)


def test_one_neuron_is_not_taken_for_another(model):
    """A pass compiled for one neuron, layer or position does not serve another."""
    targets = [gw.neuron("shared@1", i) for i in range(3)]
    targets += [gw.neuron("shared@2", 0), gw.neuron("head", 0)]
    targets += [gw.neuron(gw.activations("head", at="input"), 1)]
    found = [float(array(gw.gradients(model, X, target=t).value)) for t in targets]
    assert len(set(found)) == len(targets)
    again = [float(array(gw.gradients(model, X, target=t).value)) for t in targets]
    assert again == found


def test_the_state_of_a_recurrent_layer_is_one_of_its_tensors():
    """`lstm[1]` is a tensor of a structure; the layer alone is not one."""
    inputs = keras.Input((5, 3))
    outputs = layers.LSTM(4, return_state=True, name="lstm")(inputs)
    model = keras.Model(inputs, outputs[0])
    x = np.ones((2, 5, 3), "float32")
    hidden = gw.saliency(model, x, gw.neuron("lstm[1]", 2))
    np.testing.assert_allclose(hidden.score, array(model(x))[:, 2], rtol=1e-5)
    with pytest.raises(gw.TargetError, match="`layer` must give one tensor.*3 tensors"):
        gw.saliency(model, x, gw.neuron("lstm", 2))


REFUSED = {
    "outside": (
        lambda m: gw.gradients(m, X, target=gw.neuron("head", 2)),
        r"`index` must be a position.*\(2,\) for head of shape \(4, 2\).*is \(1\)",
    ),
    "axes": (
        lambda m: gw.gradients(m, X, target=gw.neuron("head", (0, 0))),
        r"`index` must be a position.*\(0, 0\) for head",
    ),
    "word": (lambda m: gw.neuron("head", "first"), "`index` must be whole numbers"),
    "bool": (lambda m: gw.neuron("head", True), "`index` must be whole numbers"),
    "no layer": (lambda m: gw.neuron(None, 0), "`layer` must name the layer"),
    "no pattern": (lambda m: gw.neuron(1.5, 0), "`layer` must be"),
    "unknown": (
        lambda m: gw.gradients(m, X, target=gw.neuron("haed", 0)),
        "`layer` must .*'haed'.*Closest: .*'head'",
    ),
    "both calls": (
        lambda m: gw.gradients(m, X, target=gw.neuron("shared", 0)),
        "`layer` must give one tensor, in one call.*shared, with 2 tensors",
    ),
    "no such call": (
        lambda m: gw.gradients(m, X, target=gw.neuron("shared@3", 0)),
        "`layer` must give one tensor.*shared@3, with 0 tensors",
    ),
    "itself": (
        lambda m: gw.gradients(m, X, target=gw.neuron),
        r"`target` must be a target.*Call it: `gradwatch\.neuron\(…\)`",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_neuron_is_refused(model, case):
    """With the rule, what was received, and a way out; the model is as before."""
    call, message = REFUSED[case]
    with (
        testing.assert_untouched(model),
        pytest.raises(gw.GradwatchError, match=message),
    ):
        call(model)
