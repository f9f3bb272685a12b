"""What is healthy stays healthy, and what is sick stays sick, at any scale."""

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw

# XLA takes seconds for a model that trains in none.
QUICK = {"jit_compile": False} if keras.config.backend() == "tensorflow" else {}
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(1024, 8)).astype("float32")
Y = np.tanh(X @ RANDOM.normal(size=(8, 1))).astype("float32")


def findings(path, activation, *, scale=1.0, width=16, batch=32, optimizer=None):
    """The symptoms of a training of 30 steps, its loss multiplied by `scale`."""
    keras.utils.set_random_seed(1)
    depth = 9 if activation == "sigmoid" else 3
    hidden = [layers.Dense(width, activation) for _ in range(depth)]
    model = keras.Sequential([keras.Input((8,)), *hidden, layers.Dense(1)])
    optimizer = optimizer or keras.optimizers.SGD(0.05 / scale)
    model.compile(optimizer, "mse", loss_weights=scale, **QUICK)
    monitor = gw.GradientMonitor(path, every=1, histograms=False)
    epochs = max(1, 30 * batch // len(X))
    some = min(len(X), 30 * batch)
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
    # Adam takes the scale of the loss away by itself: its learning rate stays.
    "Adam, the loss a thousandth": {"optimizer": "adam", "scale": 1e-3},
    "Adam, the loss a thousandfold": {"optimizer": "adam", "scale": 1e3},
}
OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(3e-3),
    "rmsprop": lambda: keras.optimizers.RMSprop(1e-3),
    "lion": lambda: keras.optimizers.Lion(5e-4),
    "momentum": lambda: keras.optimizers.SGD(0.02, momentum=0.9),
}


def changed(change):
    options = dict(CHANGES[change])
    if "optimizer" in options:
        options["optimizer"] = OPTIMIZERS[options["optimizer"]]()
    return options


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_healthy_stays_healthy(tmp_path, change):
    """Neither scale, width, batch size nor optimizer makes a training sick."""
    assert findings(tmp_path, "relu", **changed(change)) == set()


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_sick_stays_sick(tmp_path, change):
    """Nor does any of them hide what is wrong."""
    assert findings(tmp_path, "sigmoid", **changed(change)) == {"vanishing"}
