"""Activation gradients under XLA are those of a step that XLA does not compile."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from gradwatch.monitor import GradientMonitor
from gradwatch.run import Run, open_run

from .models import WIDTH, fit

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="the others have one way only"
)


class Penalised(layers.Layer):
    """Uses its own output before it hands it on."""

    def call(self, x):
        y = x * 2.0
        self.add_loss(ops.sum(y * y))
        return y


class Twice(layers.Layer):
    """Hands one tensor on as two outputs."""

    def call(self, x):
        y = ops.tanh(x)
        return {"a": y, "b": y}


def branches(x):
    """What is handed on unchanged has a gradient of its own branch only."""
    a = layers.Dense(4, name="a")(x)
    same = layers.Identity(name="same")(a)
    left = layers.Dense(4, name="left")(same)
    return layers.Add(name="sum")([a, left, layers.Dense(4, name="right")(a)])


def penalised(x):
    return Penalised(name="penalised")(layers.Dense(4, name="a")(x))


def twice(x):
    both = Twice(name="twice")(layers.Dense(4, name="a")(x))
    return layers.Dense(4, name="b")(both["a"]) + 3.0 * both["b"]


def nested(x):
    """The output of a model is that of its last layer."""
    inner = keras.Sequential([layers.Dense(4, "tanh", name="p")], name="inner")
    return inner(layers.Dense(4, name="a")(x)) * 2.0


def shared(x):
    one = layers.Dense(WIDTH, "tanh", name="one")
    return one(one(x)) + one(x)


@pytest.mark.parametrize("build", [branches, penalised, twice, nested, shared])
def test_numbers_are_those_of_a_step_without_xla(tmp_path, build):
    """Whether the tape is asked, or an identity stands in the step."""
    runs = []
    for jit in (False, True):
        keras.utils.clear_session()  # layers that Keras names have the same names again
        keras.utils.set_random_seed(3)
        inputs = keras.Input((WIDTH,))
        outputs = layers.Dense(2, name="head")(build(inputs))
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=jit)
        directory = tmp_path / str(jit)
        fit(model, GradientMonitor(directory, every=1, activations=True))
        runs.append(open_run(directory))
    plain, compiled = runs
    assert plain.activations == compiled.activations
    assert len(plain.activations) > 2
    for name in plain.activations:
        for look in (Run.__getitem__, Run.activation):
            mine, theirs = look(compiled, name), look(plain, name)
            np.testing.assert_allclose(mine.norm, theirs.norm, rtol=1e-4, atol=1e-7)
            np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-3, atol=1e-6)
            assert np.all(np.isfinite(mine.norm))
