"""Whatever is asked, and however it ends, the model stays as it was."""

import keras
import pytest
from keras import layers

import gradwatch as gw
from gradwatch import attribute
from gradwatch.testing import assert_untouched

from .models import CLASSES, X, cnn

TARGET = gw.class_score(CLASSES)
METHODS = {
    "integrated_gradients": {"steps": 3, "layer": "conv"},
    "smoothgrad": {"samples": 2},
    "guided_grad_cam": {"layer": "relu"},
    "deep_lift": {},
    "score_cam": {"layer": "relu"},
    "neuron_conductance": {"steps": 2, "layer": "hidden", "neuron": 1},
    "pgd": {"epsilon": 0.1, "step": 0.1, "steps": 2, "seed": 0},
}


@pytest.fixture(scope="module")
def model():
    """With dropout and batch normalisation, compiled and trained for a step."""
    plain = cnn()
    inputs = keras.Input(X.shape[1:])
    h = layers.Dropout(0.5, seed=3, name="drop")(plain(inputs))
    whole = keras.Model(inputs, layers.BatchNormalization(name="norm")(h))
    whole.compile("adam", "mse")
    whole.fit(X, X[:, 0, 0, :1].repeat(3, axis=1), verbose=0)
    return whole


@pytest.mark.parametrize("name", METHODS)
def test_a_method_leaves_no_trace(model, name):
    """Weights, moving averages, seeds, methods, Keras and the optimizer."""
    with assert_untouched(model):
        getattr(attribute, name)(model, X, TARGET, **METHODS[name])


def test_an_error_leaves_no_trace(model):
    """A wrong target, a wrong layer, a wrong baseline, a function that raises."""

    def broken(outputs):
        raise RuntimeError("broken on purpose")

    with assert_untouched(model):
        with pytest.raises(gw.TargetError, match="`index` must be from"):
            gw.integrated_gradients(model, X, gw.class_score(3))
        with pytest.raises(gw.AddressError, match="`layer` must"):
            gw.saliency(model, X, TARGET, layer="nowhere")
        with pytest.raises(gw.GradwatchError, match="`baseline` must have the shape"):
            gw.integrated_gradients(model, X, TARGET, baseline=[1.0, 2.0])
        for name in ("guided_backprop", "deep_lift"):
            with pytest.raises(RuntimeError, match="broken on purpose"):
                getattr(attribute, name)(model, X, broken)
