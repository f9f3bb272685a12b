"""Other backward rules reach every rectifier, wherever it is, and stay nowhere."""

import threading

import keras
import numpy as np
import pytest
from keras import layers, ops
from keras.src import backend

import gradwatch as gw
from gradwatch import attribute

from .models import START, close, fill, numbers, pooled
from .models import X as IMAGES

X = numbers(4, 6, seed=7)


class Raw(layers.Layer):
    """Calls `keras.ops.relu` itself."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = layers.Dense(6, name="dense")

    def call(self, x):
        return ops.relu(self.dense(x))


def nested(activate, name):
    """A rectifier two models deep."""
    inner_in = keras.Input((6,))
    inner = keras.Model(inner_in, activate(inner_in), name=f"{name}_inner")
    middle_in = keras.Input((6,))
    return keras.Model(middle_in, inner(middle_in), name=f"{name}_middle")


KINDS = {
    "layer": lambda: nested(
        lambda h: layers.ReLU()(layers.Dense(6, name="dense")(h)), "a"
    ),
    "activation": lambda: nested(
        lambda h: layers.Activation("relu")(layers.Dense(6, name="dense")(h)), "b"
    ),
    "argument": lambda: nested(layers.Dense(6, activation="relu", name="dense"), "c"),
    "node": lambda: nested(lambda h: ops.relu(layers.Dense(6, name="dense")(h)), "d"),
    "call": lambda: nested(Raw(), "e"),
}


def twin(model, rule):
    """The gradient by hand: dense, rectifier, dense."""
    first, bias, last, _ = [
        np.asarray(ops.convert_to_numpy(w.value), "float64") for w in model.weights
    ]
    before = X @ first + bias
    g = np.tile(last[:, 1], (len(X), 1))
    g = g * (g > 0)
    if rule == "guided_backprop":
        g = g * (before > 0)
    return g @ first.T


@pytest.mark.parametrize("rule", ["guided_backprop", "deconvnet"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rectifier_is_reached_in_a_nested_model(kind, rule):
    """As a layer, an Activation, an argument, a node of a graph, inside a `call`."""
    inputs = keras.Input((6,))
    outputs = layers.Dense(3, name="head")(KINDS[kind]()(inputs))
    model = fill(keras.Model(inputs, outputs))
    found = getattr(attribute, rule)(model, X, gw.class_score(1))
    close(found.values, twin(model, rule))
    plain = gw.saliency(model, X, gw.class_score(1), absolute=False)
    assert np.abs(plain.values - found.values).max() > 1e-2


def test_relu6_and_leaky_relu_are_guided_too():
    """The positive gradient passes as the function lets it."""
    inputs = keras.Input((6,))
    h = layers.ReLU(max_value=6, name="six")(inputs)
    h = layers.LeakyReLU(0.5, name="leaky")(h * 4.0 - 1.0)
    model = fill(keras.Model(inputs, layers.Dense(2, name="head")(h)))
    found = attribute.guided_backprop(model, X, gw.class_score(0))
    kernel = np.asarray(ops.convert_to_numpy(model.weights[0].value), "float64")
    six = np.clip(X, 0, 6)
    g = np.maximum(np.tile(kernel[:, 0], (len(X), 1)), 0)
    g = np.maximum(4 * g * np.where(six * 4 - 1 > 0, 1, 0.5), 0)
    close(found.values, g * ((X > 0) & (X < 6)))


@pytest.mark.parametrize("name", ["guided_backprop", "deconvnet"])
def test_a_model_without_rectifiers_is_refused(name):
    """A method that changes nothing would give plain gradients under another name."""
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3, activation="tanh")])
    with pytest.raises(gw.GradwatchError, match="`model` must have a rectifier"):
        getattr(attribute, name)(model, X, gw.class_score(1))


FUNCTIONS = ("relu", "relu6", "leaky_relu", "gelu", "sigmoid", "tanh")


def test_keras_has_its_own_functions_back():
    """After a pass, and after a model that raises inside one."""
    before = [getattr(backend.nn, name) for name in FUNCTIONS]
    model = keras.Sequential([keras.Input((6,)), layers.Dense(3, activation="relu")])
    attribute.guided_backprop(model, X, gw.class_score(1))
    attribute.deep_lift(model, X, gw.class_score(1))
    assert [getattr(backend.nn, name) for name in FUNCTIONS] == before

    class Broken(layers.Layer):
        def call(self, x):
            raise RuntimeError("broken on purpose")

        def compute_output_shape(self, shape):
            return shape

    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(3, activation="relu"), Broken()]
    )
    with pytest.raises(RuntimeError, match="broken on purpose"):
        attribute.guided_backprop(model, X, gw.class_score(1))
    assert [getattr(backend.nn, name) for name in FUNCTIONS] == before


def test_another_thread_has_the_plain_rule_meanwhile():
    """What is traced elsewhere while a rule is in force has plain gradients."""
    seen = []

    class Meets(layers.Layer):
        def call(self, x):
            if not seen:
                seen.append(None)  # first, so that it happens once
                thread = threading.Thread(target=self.look)
                thread.start()
                thread.join()
            return ops.relu(x)

        def compute_output_shape(self, shape):
            return shape

        def look(self):
            y = ops.relu(ops.convert_to_tensor(X))
            seen.append(np.asarray(ops.convert_to_numpy(y)))
            seen.append(type(backend.nn.relu).__name__)

    model = fill(keras.Sequential([keras.Input((6,)), Meets(), layers.Dense(3)]))
    attribute.guided_backprop(model, X, gw.class_score(1))
    assert (seen[1] == np.maximum(X, 0)).all()
    assert seen[2] == "_StandIn"  # it was in force, and did nothing there


def test_deep_lift_of_a_saturated_unit_is_not_zero():
    """Where gradients vanish, slopes between the example and its reference do not."""
    model = keras.Sequential(
        [keras.Input((2,)), layers.Dense(1, activation="sigmoid", name="unit")]
    )
    model.get_layer("unit").set_weights([np.array([[30.0], [30.0]]), np.zeros(1)])
    x = np.ones((1, 2), "float32")
    plain = gw.input_x_gradient(model, x, gw.output())
    found = attribute.deep_lift(model, x, gw.output())
    assert np.abs(plain.values).max() < 1e-12
    close(found.values, [[0.25, 0.25]])


def test_deep_lift_is_complete_through_many_functions():
    """Each function of one number, in a row; the values add up to the difference."""
    names = ["relu", "elu", "gelu", "silu", "softplus", "sigmoid", "tanh", "selu"]
    model = keras.Sequential(
        [keras.Input((6,)), *(layers.Dense(6, activation=name) for name in names)]
    )
    found = attribute.deep_lift(model, X, gw.class_score(2), baseline=0.3)
    difference = found.score - found.baseline_score
    assert np.abs(found.delta).max() < 1e-4 * np.abs(difference).max()


@pytest.mark.parametrize("before", ["relu", "linear"])
def test_deep_lift_is_complete_through_max_pooling(before):
    """Also where a whole window is zero, in the example or its reference."""
    model = pooled(before)
    found = attribute.deep_lift(model, IMAGES, gw.class_score(2), baseline=START)
    difference = found.score - found.baseline_score
    assert np.abs(found.delta).max() < 1e-5 * np.abs(difference).max()
    plain = gw.input_x_gradient(model, IMAGES, gw.class_score(2))
    assert np.abs(plain.values - found.values).max() > 1e-2
