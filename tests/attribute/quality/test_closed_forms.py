"""Models of which everything is known, whatever is drawn."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch import attribute
from gradwatch.attribute import quality

from ..models import CLASSES, close, numbers

TARGET = gw.class_score(CLASSES)
X6, START6 = numbers(3, 6, seed=1), numbers(3, 6, seed=2)


def test_a_constant_gradient_has_no_sensitivity(linear):
    """‖Φ(y) − Φ(x)‖ = 0 for the gradient; for w · x it is at most ‖w‖ · r."""
    a = gw.saliency(linear, X6, TARGET)
    assert quality.sensitivity_max(a, linear, samples=3).values.max() < 1e-6
    a = gw.input_x_gradient(linear, X6, TARGET)
    found = quality.sensitivity_max(a, linear, radius=0.1, samples=20)
    kernel = linear.get_weights()[0].T[CLASSES]
    most = 0.1 * np.linalg.norm(kernel, axis=1)
    assert (found.values <= most + 1e-6).all()
    assert (found.values > 0.5 * most).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("saliency", {"absolute": False}),
        ("input_x_gradient", {}),
        ("integrated_gradients", {"baseline": START6, "steps": 2}),
        ("deep_lift", {"baseline": START6}),
        ("occlusion", {"baseline": START6}),
        ("expected_gradients", {"data": START6[:1], "samples": 2}),
        ("smoothgrad", {"samples": 2, "method": gw.saliency, "absolute": False}),
    ],
)
def test_the_right_explanation_of_a_linear_model_has_no_infidelity(
    linear, name, options
):
    """Iᵀ Φ = f(x) − f(x − I) for every I: the gradient, and w · (x − x′) / (x − x′)."""
    a = getattr(attribute, name)(linear, X6, TARGET, **options)
    for perturbation in ("noisy_baseline", "square"):
        found = quality.infidelity(
            a, linear, perturbation=perturbation, size=0.5, samples=4
        )
        assert found.values.max() < 1e-8
        assert np.abs(found.changes).max() > 0.1
    assert (found.scale == 1).all()


def test_numbers_are_replaced_by_what_the_method_compared_with(linear):
    """Unless another baseline is asked for."""
    a = gw.integrated_gradients(linear, X6, TARGET, baseline=START6, steps=1)
    options = {"size": 1e-6, "samples": 1}  # hardly any noise: all the way
    found = quality.infidelity(a, linear, **options)
    close(found.changes[0], a.score - a.baseline_score, 1e-4)
    found = quality.infidelity(a, linear, **options, baseline="zeros")
    bias = linear.get_weights()[1][CLASSES]
    close(found.changes[0], a.score - bias, 1e-4)
    assert found.values.max() < 1e-8  # the slope is the same


def test_a_scaled_explanation_is_mended_by_the_scale(linear):
    """Twice the gradient: a quarter of the work is wrong; normalised, none is."""
    a = gw.saliency(linear, X6, lambda out: 2 * out[:, 0], absolute=False)
    half = gw.saliency(linear, X6, lambda out: out[:, 0], absolute=False)
    wrong = _with(half, values=a.values)
    found = quality.infidelity(wrong, linear, samples=6)
    close(found.relative, np.ones(3), 1e-4)  # as wrong as saying nothing
    found = quality.infidelity(wrong, linear, samples=6, normalise=True)
    close(found.scale, np.full(3, 0.5), 1e-4)
    assert found.values.max() < 1e-8


def _with(a, values):
    from dataclasses import replace

    return replace(a, places=(replace(a.places[0], values=values),))


def test_another_batch_is_explained_first(linear):
    """As arrays, as plain lists, and with the model of one example."""
    a = gw.input_x_gradient(linear, X6, gw.class_score(1))
    own = gw.input_x_gradient(linear, START6[:1], gw.class_score(1))
    for x in (START6[:1], START6[:1].tolist()):
        found = quality.deletion(a, linear, x, orders=1)
        close(found.scores, quality.deletion(own, linear, orders=1).scores, 1e-6)
        options = {"samples": 2, "radius": 0.5}
        found = quality.sensitivity_max(a, linear, x, **options)
        same = quality.sensitivity_max(own, linear, **options)
        close(found.values, same.values, 1e-6)
        assert quality.randomisation(a, linear, x).signed.shape == (1, 1)


def test_the_curves_of_a_linear_model(linear):
    """F(x) − Σ of the largest k of w · (x − x′), and from the other end."""
    kernel = linear.get_weights()[0].T[CLASSES]
    gains = kernel * (X6 - START6)
    a = gw.integrated_gradients(linear, X6, TARGET, baseline=START6, steps=1)
    falling = np.cumsum(-np.sort(-gains, axis=1), axis=1)
    found = quality.deletion(a, linear, baseline=START6, orders=3)
    expected = np.concatenate([a.score[:, None], a.score[:, None] - falling], axis=1)
    close(found.scores, expected, 1e-5)
    risen = quality.insertion(a, linear, baseline=START6, orders=3)
    start = a.baseline_score[:, None]
    close(risen.scores, np.concatenate([start, start + falling], axis=1), 1e-5)
    # No order falls faster, or rises faster, than the right one.
    assert (found.scores <= found.random + 1e-5).all()
    assert (risen.scores >= risen.random - 1e-5).all()
    assert found.better.all()
    assert risen.better.all()


def test_where_all_features_are_alike_every_order_is_a_straight_line():
    """A sum of ones: F falls by one with each position, whichever it is."""
    model = keras.Sequential(
        [keras.Input((4, 5, 3)), layers.Lambda(lambda t: ops.sum(t, axis=(1, 2, 3)))]
    )
    x = np.ones((2, 4, 5, 3), "float32")
    a = gw.input_x_gradient(model, x, gw.output())
    found = quality.deletion(a, model, steps=10, orders=4)
    line = 60 * (1 - np.linspace(0, 1, 11))
    close(found.scores, np.tile(line, (2, 1)), 1e-6)
    close(found.random, np.tile(line, (4, 2, 1)), 1e-6)


def test_of_equal_values_chance_decides():
    """An explanation that says nothing removes no corner first."""
    model = keras.Sequential(
        [keras.Input((8,)), layers.Lambda(lambda t: ops.sum(t[:, :4], axis=1))]
    )
    x = np.ones((40, 8), "float32")
    a = _with(gw.saliency(model, x, gw.output()), values=np.zeros((40, 8)))
    found = quality.deletion(a, model, steps=2, orders=0)
    assert abs(found.scores[:, 1].mean() - 2) < 0.5  # 0 in the order of memory


def test_several_inputs_are_ordered_together():
    """The strongest feature goes first, whichever input it is in."""
    one, two = keras.Input((2,), name="one"), keras.Input((3,), name="two")
    both = layers.Concatenate(name="both")([one, two])
    head = layers.Dense(1, name="head")
    model = keras.Model([one, two], head(both))
    weights = np.array([3.0, 1.0, 5.0, 2.0, 4.0], "float32")
    head.set_weights([weights[:, None], np.zeros(1)])
    x = [np.ones((2, 2), "float32"), np.ones((2, 3), "float32")]
    a = gw.input_x_gradient(model, x, gw.output())
    found = quality.deletion(a, model, orders=1)
    close(found.scores, np.tile([15.0, 10.0, 6.0, 3.0, 1.0, 0.0], (2, 1)), 1e-6)
    assert quality.infidelity(a, model, samples=3).values.max() < 1e-8
    assert quality.sensitivity_max(a, model, samples=2).values.min() > 0


def test_occlusion_of_an_image_is_right_about_squares():
    """All channels of a position go together, and so do their gains."""
    model = keras.Sequential(
        [keras.Input((4, 4, 2)), layers.Flatten(), layers.Dense(3)]
    )
    x = numbers(3, 4, 4, 2, seed=4)
    a = attribute.occlusion(model, x, TARGET)
    found = quality.infidelity(a, model, perturbation="square", samples=5, size=0.5)
    # One value stands for two channels: what is covered whole is foretold exactly.
    assert found.values.max() < 1e-8
