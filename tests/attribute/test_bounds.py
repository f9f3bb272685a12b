"""What goes through the model at a time is bounded, and compiled once."""

import gc
import weakref

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch import attribute
from gradwatch.engine import Engine, _engine

from .models import CLASSES, TOKENS, X, close, cnn, numbers

TARGET = gw.class_score(CLASSES)


METHODS = {
    "saliency": {},
    "integrated_gradients": {"steps": 7},
    "expected_gradients": {"samples": 7, "data": X},
    "occlusion": {"window": 2},
    "layer_conductance": {"steps": 7, "layer": "conv"},
    "internal_influence": {"steps": 7, "layer": "conv"},
    "neuron_conductance": {"steps": 7, "layer": "hidden", "neuron": 1},
    "score_cam": {"layer": "conv"},
    "deep_lift": {},
    "grad_cam": {"layer": "conv"},
    "smoothgrad": {"samples": 3},
}


def traces(model):
    """How often the passes of a model were traced."""
    return sum(engine.traces for engine in _engine._engines[model].values())


@pytest.fixture
def rows(monkeypatch):
    """How many rows each pass had."""
    seen, run = [], Engine.run

    def counted(self, model, x, *args, **options):
        seen.append(len(keras.tree.flatten(x)[0]))
        return run(self, model, x, *args, **options)

    monkeypatch.setattr(Engine, "run", counted)
    return seen


@pytest.mark.parametrize("name", METHODS)
def test_no_pass_has_more_rows_than_the_batch_size(image_model, rows, name):
    """The same values come out, whatever the size; each pass has the same shape."""
    method, options = getattr(attribute, name), METHODS[name]
    expected = method(image_model, X, TARGET, **options)
    assert max(rows) > 2
    rows.clear()
    found = method(image_model, X, TARGET, **options, batch_size=2)
    assert set(rows) == {2}
    close(found.values, expected.values, 1e-5)
    if found.delta is not None:
        assert np.abs(found.delta - expected.delta).max() < 1e-5


def test_tokens_under_noise_keep_to_the_batch_size(text_model, rows):
    """Their noise is at the layer, which takes a pass to know."""
    options = {"layer": "embed", "samples": 3}
    expected = gw.smoothgrad(text_model, TOKENS, TARGET, **options)
    rows.clear()
    found = gw.smoothgrad(text_model, TOKENS, TARGET, **options, batch_size=2)
    assert set(rows) == {2}
    close(found.values, expected.values, 1e-5)


def test_a_long_background_goes_through_in_parts(image_model, rows):
    """What a layer gives for it takes passes no larger than those of the batch."""
    data = numbers(200, *X.shape[1:], seed=5)
    attribute.expected_gradients(
        image_model, X, TARGET, layer="conv", data=data, samples=2
    )
    baseline = attribute.sampled(data, 1)
    gw.integrated_gradients(
        image_model, X, TARGET, layer="conv", baseline=baseline, steps=2
    )
    assert max(rows) <= 64


def test_what_fills_a_pass_up_does_not_count(image_model, rows):
    """Eleven points, four at a time: the twelfth repeats the last, for nothing."""
    options = {"steps": 10, "rule": "trapezoid"}
    target = gw.class_score(1)
    expected = gw.integrated_gradients(image_model, X[:1], target, **options)
    flow = attribute.layer_conductance(
        image_model, X[:1], target, layer="conv", steps=10
    )
    rows.clear()
    found = gw.integrated_gradients(image_model, X[:1], target, **options, batch_size=4)
    assert rows == [4, 4, 4]
    close(found.values, expected.values, 1e-5)
    found = attribute.layer_conductance(
        image_model, X[:1], target, layer="conv", steps=10, batch_size=4
    )
    close(found.values, flow.values, 1e-5)


def test_steps_share_one_compiled_pass():
    """500 steps trace as often as 50 do, and a second call not at all."""
    if keras.config.backend() == "torch":
        pytest.skip("torch compiles nothing")
    model = cnn()
    gw.integrated_gradients(model, X, TARGET, batch_size=6)
    assert traces(model) == 1
    gw.integrated_gradients(model, X, TARGET, steps=500, batch_size=6)
    assert traces(model) == 1
    options = {"steps": "auto", "tolerance": 0.5, "batch_size": 6}
    gw.integrated_gradients(model, X, gw.class_score(1), **options)
    assert traces(model) == 1


def test_what_is_repeated_is_compiled_at_once(monkeypatch):
    """A first pass over the points of a path, but not one over the batch as it is."""
    if keras.config.backend() != "tensorflow":
        pytest.skip("the others have only one way")
    model = cnn()
    gw.saliency(model, X, TARGET)
    assert traces(model) == 0
    gw.saliency(model, X, TARGET)
    assert traces(model) == 1
    uncompiled = []
    monkeypatch.setattr(_engine, "_once", lambda *_: uncompiled.append(1))
    gw.integrated_gradients(cnn(), X, TARGET)
    model = cnn()
    model.compile(loss="mse")
    y = np.ones(model.compute_output_shape(X.shape))
    attribute.fgsm(model, X, gw.loss(), y=y, epsilon=1)
    assert uncompiled == []


def test_engines_go_with_their_model():
    """What was compiled for a model does not keep it."""
    model = cnn()
    gw.integrated_gradients(model, X, TARGET, steps=3, layer="conv")
    attribute.guided_backprop(model, X, TARGET)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
