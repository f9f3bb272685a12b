"""`assert_untouched` goes red for every kind of change, and says which."""

import random
import sys

import keras
import numpy as np
import pytest
from keras import layers
from keras.src.backend.common import global_state
from tests.zoo import zoo

from gradwatch.testing import assert_untouched

BACKEND = keras.backend.backend()


@pytest.fixture
def model():
    """With everything that training leaves on a model, but without training it."""
    model, _, _ = zoo()["cnn"].build()
    model.compile(
        optimizer=keras.optimizers.Adam(), loss=model.loss, metrics=["accuracy"]
    )
    model.optimizer.build(model.trainable_variables)
    return model


def add(variable, amount):
    variable.assign(
        keras.ops.convert_to_numpy(variable)
        + np.asarray(amount).astype(keras.ops.convert_to_numpy(variable).dtype)
    )


def put(owner, name, value):
    owner.__dict__[name] = value


def leave_scope_open(model):
    scope = keras.StatelessScope()
    scope.__enter__()


CHANGES = {
    "a weight": (lambda m: add(m.layers[0].kernel, 1e-3), "value of .*kernel"),
    "one number of a weight by one bit": (
        lambda m: m.layers[0].bias.assign(
            np.nextafter(keras.ops.convert_to_numpy(m.layers[0].bias), np.float32(1))
        ),
        "value of .*bias",
    ),
    "a moving average": (
        lambda m: add(m.get_layer("norm").moving_mean, 1.0),
        "value of .*moving_mean",
    ),
    "a seed": (
        lambda m: m.get_layer("drop").seed_generator.next(),
        "value of .*seed_generator_state",
    ),
    "a metric": (lambda m: add(m.metrics[0].variables[0], 1.0), "value of .*total"),
    "an optimizer variable": (
        lambda m: add(m.optimizer.variables[-1], 1.0),
        "value of .*optimizer",
    ),
    "the learning rate": (
        lambda m: setattr(m.optimizer, "learning_rate", 0.5),
        "value of .*learning_rate",
    ),
    "a shadowed call": (
        lambda m: put(m.layers[0], "call", m.layers[0].call),
        r"_layers\[1\]\.call` was not there",
    ),
    "a shadowed apply": (
        lambda m: put(m.optimizer, "apply", m.optimizer.apply),
        r"optimizer\.apply` was not there",
    ),
    "an attribute": (lambda m: put(m, "_gradwatch", 1), "_gradwatch` was not there"),
    "an attribute taken away": (
        lambda m: m.layers[0].__dict__.pop("strides"),
        "strides.*` was there and is gone",
    ),
    "an attribute set to something else": (
        lambda m: put(m.get_layer("drop"), "rate", 0.1),
        r"rate` was 0\.4 and is 0\.1",
    ),
    "an added loss": (
        lambda m: m.layers[0].add_loss(keras.ops.ones(())),
        "length of .*_losses` was 0 and is 1",
    ),
    "a flag of a layer": (
        lambda m: setattr(m.layers[0], "trainable", False),
        "trainable` was True and is False",
    ),
    "a flag of a variable": (
        lambda m: setattr(m.layers[0].kernel, "trainable", False),
        r"kernel\.trainable` was True and is False|trainable` was True",
    ),
    "the compiled loss": (
        lambda m: put(m, "_compile_loss", None),
        "_compile_loss` was <CompileLoss",
    ),
    "the train function": (
        lambda m: put(m, "train_function", print),
        "train_function` was",
    ),
    "a new metric": (
        lambda m: m._metrics.append(keras.metrics.Mean(name="more")),
        "length of .*_metrics`",
    ),
    "remat": (lambda m: put(m.layers[0], "_remat_mode", "full"), "_remat_mode` was"),
    "random of python": (lambda m: random.random(), r"random streams\['random'\]"),
    "random of numpy": (lambda m: np.random.random(), r"random streams\['numpy'\]"),
    "floatx": (
        lambda m: keras.config.set_floatx("float64"),
        r"floatx'\]` was 'float32'",
    ),
    "a name counter": (
        lambda m: keras.KerasTensor((1,)),
        r"object_name_uids'\]\['keras_tensor'\]",
    ),
    "a scope left open": (leave_scope_open, "stateless_scope"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_found_and_named(model, what):
    """The message names the first thing that is not as it was."""
    change, name = CHANGES[what]
    try:
        with pytest.raises(AssertionError, match=name), assert_untouched(model):
            change(model)
    finally:
        global_state.set_global_attribute("stateless_scope", None)


@pytest.mark.parametrize("cls", [keras.Operation, keras.Layer, layers.Dense])
def test_a_patched_class_is_found(model, cls, monkeypatch):
    """`Operation.__call__`, `Layer.__call__` and the `call` of a layer's own class."""
    method = "call" if cls is layers.Dense else "__call__"
    original = getattr(cls, method)

    def patched(self, *args, **kwargs):
        return original(self, *args, **kwargs)

    name = rf"{cls.__name__}\.{method} \(keras"
    with pytest.raises(AssertionError, match=name), assert_untouched(model):
        monkeypatch.setattr(cls, method, patched)


@pytest.mark.skipif(BACKEND != "torch", reason="Only torch has these.")
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda m: m.layers[0].kernel.value.requires_grad_(False), "requires_grad"),
        (lambda m: m.layers[0].kernel.value.sum().backward(), r"value\.grad"),
        (lambda m: sys.modules["torch"].rand(1), r"random streams\['torch'\]"),
        (lambda m: m.layers[0].register_forward_hook(print), "_forward_hooks"),
    ],
)
def test_a_trace_on_torch_is_found(model, change, name):
    """Gradients left on parameters, frozen parameters, random numbers, hooks."""
    with pytest.raises(AssertionError, match=name), assert_untouched(model):
        change(model)


def test_the_state_of_a_stateful_layer_is_watched():
    """Keras does not list it among the variables of the model."""
    model, x, _ = zoo()["stateful_lstm"].build()
    name = r"value of .*states"
    with pytest.raises(AssertionError, match=name), assert_untouched(model):
        model(x.astype("float32"))


def test_an_optimizer_inside_another_is_watched():
    """Loss scaling wraps the optimizer that does the work."""
    model, _, _ = zoo()["mixed_float16"].build()
    model.optimizer.build(model.trainable_variables)
    with (
        pytest.raises(AssertionError, match="inner_optimizer"),
        assert_untouched(model),
    ):
        model.optimizer.inner_optimizer.iterations.assign(9)


def test_a_layer_deep_inside_is_watched():
    """Models in models to any depth."""
    model, _, _ = zoo()["nested"].build()
    deep = model.inner.layers[1].layers[1]
    name = r"value of .*kernel"
    with pytest.raises(AssertionError, match=name), assert_untouched(model):
        add(deep.kernel, 1.0)


def test_nothing_is_said_when_nothing_changed(model):
    """Reading, summarising and comparing a model leave no trace."""
    with assert_untouched(model):
        model.get_weights()
        model.count_params()
        assert model.layers[0].trainable
        keras.ops.convert_to_numpy(model.layers[0].kernel)


def test_a_change_taken_back_is_no_change(model):
    """Only the state at the end counts."""
    kernel = model.layers[0].kernel
    with assert_untouched(model):
        before = keras.ops.convert_to_numpy(kernel).copy()
        add(kernel, 1.0)
        kernel.assign(before)


def test_an_error_inside_goes_on_as_it_is(model):
    """Even when the model was changed: the first error is the cause."""

    def fail():
        add(model.layers[0].kernel, 1.0)
        raise ValueError("my own error")

    with pytest.raises(ValueError, match="my own error"), assert_untouched(model):
        fail()


def test_settings_that_keras_creates_when_they_are_read_are_no_change(model):
    """After `clear_session`, reading the dtype policy creates it: also our reading."""
    keras.utils.clear_session(free_memory=False)
    with assert_untouched(model):
        pass
    keras.utils.clear_session(free_memory=False)
    with assert_untouched(model):
        keras.config.dtype_policy()
