"""What an autopsy cannot use it refuses clearly; from the rest it makes the best."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.backends import current
from gradwatch.diagnose import autopsy
from gradwatch.testing import assert_untouched

from .sick import Fault, Subclassed, Weighted, X, Y, Z, chain, faulty, head


def test_a_model_that_is_not_compiled():
    """The forward pass is searched; that the rest was not is said."""
    parts = [Weighted(name="first"), Fault(ops.sqrt, name="fault"), head()]
    model = keras.Sequential([keras.Input((2,)), *parts])
    found = autopsy(model, -X, Y)
    assert (found.address, found.cause) == ("fault", "square root of a negative number")
    for labels in (Y, None):
        found = autopsy(model, Z, labels)
        assert not found.found
        assert "Only the forward pass" in str(found)
        assert "largest_gradient" not in found.evidence
    assert autopsy(model, Z, target=gw.mean_output()).where == "activation gradient"
    assert autopsy(model, Z, -Y, target=gw.loss("mse")).found


def test_a_loss_without_its_labels():
    """The forward pass is searched, and the labels are asked for."""
    found = autopsy(faulty(ops.sqrt), Z)
    assert not found.found
    assert "loss needs labels" in str(found)
    with pytest.raises(gw.GradwatchError, match=r"Pass `autopsy\(model, x, y\)`"):
        autopsy(faulty(ops.sqrt), Z, target=gw.loss("mse"))


def test_a_model_compiled_without_a_loss():
    """It is as if it were not compiled."""
    model = keras.Sequential([keras.Input((2,)), Fault(ops.log, name="fault")])
    model.compile("sgd")
    with assert_untouched(model):
        found = autopsy(model, X)
    assert "Only the forward pass" in str(found)
    assert autopsy(model, Z).address == "fault"


def test_a_model_that_is_not_built():
    """It is built, as `fit` would."""
    model = Subclassed(ops.log)
    model.compile(loss="mse")
    assert autopsy(model, Z, Y).address == "second:input"
    model = keras.Sequential([Fault(ops.log, name="fault"), head()])
    model.compile(loss="mse")
    assert autopsy(model, Z, Y).address == "fault"


def test_a_model_without_weights():
    """The gradients of the activations are all there are."""
    model = chain(Fault(ops.sqrt, name="fault"))
    with assert_untouched(model):
        found = autopsy(model, Z, np.full((2, 2), -1.0))
    assert (found.where, found.address) == ("activation gradient", "fault")
    assert not autopsy(model, X, np.ones((2, 2))).found


def test_a_model_that_is_frozen():
    """The same."""
    model = faulty(ops.sqrt)
    model.trainable = False
    with assert_untouched(model):
        assert autopsy(model, Z, -Y).address == "fault"
        assert not autopsy(model, X, -Y).found


def test_a_model_without_layers():
    """Its own `call` is all there is."""

    class Bare(keras.Model):
        def call(self, x):
            return ops.log(x)

    found = autopsy(Bare(), Z)
    assert (found.where, found.cause) == ("activation", "log of zero")
    assert "`call` of 'bare" in str(found)


def test_a_layer_on_its_own():
    """A layer is searched like a model."""
    found = autopsy(Fault(ops.log, name="fault"), Z)
    assert (found.where, found.cause) == ("activation", "log of zero")


def test_several_outputs_and_whole_numbers():
    """Only some outputs may be floating-point."""
    inputs = keras.Input((2,))
    logs = Fault(ops.log, name="fault")(inputs)
    model = keras.Model(inputs, [logs, ops.argmax(logs, axis=-1)])
    assert autopsy(model, Z).address == "fault"
    assert not autopsy(model, X).found


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((np.ones((2, 3)), Y), r"`x` must have shape \(None, 2\)"),
        ((np.ones((0, 2)), np.ones((0, 1))), "`x` must have at least one example"),
        ((X, np.ones((3, 1))), "one label per example"),
        ((keras.Input((2,)), Y), "`x` must hold numbers"),
        ((iter([X]), Y), "`x` must be one batch"),
    ],
)
def test_a_batch_that_cannot_be(arguments, rule):
    """The rule, what was received, and the way out; the model stays as it was."""
    model = faulty(ops.log)
    with assert_untouched(model), pytest.raises(gw.GradwatchError, match=rule) as seen:
        autopsy(model, *arguments)
    assert "Received: " in str(seen.value)


def test_something_that_is_no_model():
    """A Keras 3 model or layer is asked for."""
    with pytest.raises(gw.GradwatchError, match="`model` must be a Keras 3 model"):
        autopsy("model", X)


def test_weights_without_a_loss():
    """Only a loss can weigh examples."""
    with pytest.raises(gw.GradwatchError, match="go with a loss"):
        autopsy(faulty(ops.log), X, target=gw.mean_output(), sample_weight=[1, 2])
    with pytest.raises(gw.GradwatchError, match="go with a loss"):
        target = gw.loss(sample_weight=[1.0, 2.0])
        autopsy(faulty(ops.log), X, Y, target=target, sample_weight=[1.0, 2.0])
    with pytest.raises(gw.GradwatchError, match="one weight per example"):
        autopsy(faulty(ops.log), X, Y, sample_weight=np.ones(5))


def test_a_model_that_raises():
    """Its own error comes out, and nothing is left behind."""

    def broken(x):
        raise ZeroDivisionError("mine")

    model = chain(Weighted(name="first"), head())
    layer = Fault(ops.tanh, name="fault")
    model = chain(Weighted(name="first"), layer, head())
    layer.function = broken
    with pytest.raises(ZeroDivisionError, match="mine"), assert_untouched(model):
        autopsy(model, X, Y)
    assert "call" not in vars(layer)


def test_a_fault_that_cannot_be_watched(monkeypatch):
    """What fits the numbers is said to be likely, and no more."""

    def refuse(function, see):
        raise RuntimeError

    monkeypatch.setattr(current(), "traced", refuse)
    model = faulty(ops.log)
    with assert_untouched(model):
        found = autopsy(model, Z, Y)
    assert found.address == "fault"
    assert not found.sure
    assert "log of zero or division by zero" in found.cause
    assert found.evidence["inputs"][0]["zeros"] == 1
    assert "negative" in autopsy(model, -X, Y).cause
    assert "exp" in autopsy(faulty(ops.exp), X * 100, Y).cause


def test_a_layer_that_is_a_dropout_at_first():
    """Layers that return their input are nothing special."""
    model = chain(layers.Dropout(0.0), Fault(ops.log, name="fault"), head())
    assert autopsy(model, Z, Y).address == "fault"
