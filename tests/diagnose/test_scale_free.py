"""What is healthy stays healthy, and what is sick stays sick, at any scale."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw

# XLA takes seconds for a model that trains in none.
QUICK = {"jit_compile": False} if keras.config.backend() == "tensorflow" else {}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(1024, 8)).astype("float32")
Y = np.tanh(X @ RANDOM.normal(size=(8, 1))).astype("float32")


def dense(width, activation="relu", **options):
    return layers.Dense(width, activation, **options)


def normal(spread):
    return keras.initializers.RandomNormal(stddev=spread)


def mostly_off(shape, dtype=None):
    """Biases that keep three units of four silent."""
    off = 3 * shape[0] // 4
    return ops.cast(ops.where(ops.arange(shape[0]) < off, -100.0, 0.0), dtype)


class Cut(layers.Layer):
    """Lets values through, and no gradient back."""

    def call(self, x):
        return ops.stop_gradient(x)


def healthy(width):
    return [dense(width) for _ in range(3)]


def vanishing(width):
    return [dense(width, "sigmoid") for _ in range(9)]


def unreached(width):
    return [dense(width), Cut(), dense(width)]


def dead_layer(width):
    silent = keras.initializers.Constant(-100.0)
    return [dense(width), dense(width, bias_initializer=silent), dense(width)]


def dead_units(width):
    return [dense(width), dense(width, bias_initializer=mostly_off), dense(width)]


def saturated(width):
    first = dense(width, "tanh", kernel_initializer=normal(2.0))
    return [first, dense(width, "tanh", kernel_initializer=normal(40 / width**0.5))]


def alike(width):
    same = keras.initializers.Constant(1.0 / width)
    return [dense(width, kernel_initializer=same) for _ in range(2)]


def frozen(width):
    first = dense(width)
    first.trainable = False
    return [first, dense(width), dense(width)]


RATES = {
    "sgd": lambda rate: keras.optimizers.SGD(0.05 * rate),
    "adam": lambda rate: keras.optimizers.Adam(3e-3 * rate),
    "rmsprop": lambda rate: keras.optimizers.RMSprop(1e-3 * rate),
    "lion": lambda rate: keras.optimizers.Lion(5e-4 * rate),
    "momentum": lambda rate: keras.optimizers.SGD(0.02 * rate, momentum=0.9),
}


def findings(
    path, hidden, *, scale=1.0, width=16, batch=32, optimizer="sgd", rate=1.0, steps=30
):
    """The symptoms of a training, its loss multiplied by `scale`."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((8,)), *hidden(width), layers.Dense(1)])
    # Adam takes the scale of the loss away by itself: its learning rate stays.
    rate = rate / scale if optimizer == "sgd" else rate
    model.compile(RATES[optimizer](rate), "mse", loss_weights=scale, **QUICK)
    monitor = gw.GradientMonitor(
        path, every=1, histograms=False, activations=hidden is saturated
    )
    epochs = max(1, steps * batch // len(X))
    some = min(len(X), steps * batch)
    model.fit(
        X[:some],
        Y[:some],
        batch_size=batch,
        epochs=epochs,
        verbose=0,
        callbacks=[monitor],
    )
    return {finding.symptom for finding in monitor.findings}


CHANGES = {
    "as it is": {},
    "the loss a thousandth": {"scale": 1e-3},
    "the loss a thousandfold": {"scale": 1e3},
    "wide": {"width": 128},
    "small batches": {"batch": 8},
    "large batches": {"batch": 256},
    "Adam": {"optimizer": "adam"},
    "RMSprop": {"optimizer": "rmsprop"},
    "Lion": {"optimizer": "lion"},
    "momentum": {"optimizer": "momentum"},
    "Adam, the loss a thousandth": {"optimizer": "adam", "scale": 1e-3},
    "Adam, the loss a thousandfold": {"optimizer": "adam", "scale": 1e3},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_healthy_stays_healthy(tmp_path, change):
    """Neither scale, width, batch size nor optimizer makes a training sick."""
    assert findings(tmp_path, healthy, **CHANGES[change]) == set()


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_sick_stays_sick(tmp_path, change):
    """Nor does any of them hide what is wrong."""
    assert findings(tmp_path, vanishing, **CHANGES[change]) == {"vanishing"}


SICK = {
    "unreached": (unreached, {"unreached"}, {}),
    "dead layer": (dead_layer, {"dead-layer"}, {}),
    "dead units": (dead_units, {"dead-units"}, {}),
    "saturated": (saturated, {"saturated", "initialisation"}, {}),
    "alike": (alike, {"initialisation"}, {}),
    "frozen": (frozen, {"frozen"}, {}),
    # Of thirty losses of a few examples each, the last may be lower by chance.
    "too slow": (healthy, {"small-updates"}, {"rate": 1e-3, "steps": 90}),
}
SOME = ("the loss a thousandfold", "wide", "small batches", "Adam")


@pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")
@pytest.mark.parametrize("change", SOME)
@pytest.mark.parametrize("case", SICK)
def test_each_fault_is_found_at_any_scale(tmp_path, case, change):
    """The same findings as without the change: those that the fault must have."""
    hidden, symptoms, options = SICK[case]
    assert findings(tmp_path, hidden, **options, **CHANGES[change]) == symptoms


@pytest.mark.parametrize("change", SOME)
def test_steps_that_are_too_large_are_found_at_any_scale(tmp_path, change):
    """What else breaks differs: units die with one optimizer, another overflows."""
    found = findings(tmp_path, healthy, rate=3e2, **CHANGES[change])
    assert "large-updates" in found
