"""On networks that learnt something, and on those whose answer is known."""

import warnings

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch import attribute

from .models import CLASSES, close, fill, numbers


def patches(count):
    """Noise, and somewhere in it a patch: stripes, columns or a chess board."""
    random = np.random.default_rng(0)
    x = random.normal(size=(count, 12, 12, 1)) * 0.3
    y = random.integers(3, size=count)
    at = random.integers(8, size=(count, 2))
    i, j = np.indices((5, 5))
    kinds = [np.where(n % 2, 2.0, -2.0) for n in (i, j, i + j)]
    for image, kind, (top, left) in zip(x, y, at, strict=True):
        image[top : top + 5, left : left + 5, 0] += kinds[kind]
    return x.astype("float32"), y, at


@pytest.fixture(scope="module")
def trained():
    """A small CNN that tells the patches apart, some of them, and where they are."""
    x, y, at = patches(384)
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(32, 3, activation="relu", name="conv"),
            layers.Conv2D(32, 3, activation="relu", name="deep"),
            layers.GlobalAveragePooling2D(name="mean"),
            layers.Dense(3, name="head"),
        ]
    )
    for number, weight in enumerate(model.trainable_weights):  # alike everywhere
        fan_in = np.prod(weight.shape[:-1]) if len(weight.shape) > 1 else np.inf
        weight.assign(numbers(*weight.shape, seed=number, scale=(2 / fan_in) ** 0.5))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    model.fit(x, y, batch_size=32, epochs=5, shuffle=False, verbose=0)
    assert model.evaluate(x, y, verbose=0)[1] > 0.95
    return model, x[:6], y[:6], at[:6]


def test_fifty_points_of_gauss_and_legendre_are_complete_to_a_thousandth(trained):
    """|delta| < 1e-3 · |F(x) − F(x′)| for every example."""
    model, x, y, _ = trained
    a = gw.integrated_gradients(model, x, gw.class_score(y))
    difference = a.score - a.baseline_score
    assert (np.abs(a.delta) < 1e-3 * np.abs(difference)).all()


def test_auto_takes_as_many_steps_as_it_needs_and_says_so(trained):
    """The tolerance that was asked for is reached, with the fewest doublings."""
    model, x, y, _ = trained
    target = gw.class_score(y)
    few = gw.integrated_gradients(model, x, target, steps="auto", tolerance=0.05)
    many = gw.integrated_gradients(model, x, target, steps="auto", tolerance=1e-3)
    assert few.settings["steps"] < many.settings["steps"]
    for a, tolerance in ((few, 0.05), (many, 1e-3)):
        difference = np.abs(a.score - a.baseline_score)
        assert a.settings["reached"]
        assert (np.abs(a.delta) <= tolerance * difference).all()
    before = gw.integrated_gradients(
        model, x, target, steps=many.settings["steps"] // 2
    )
    difference = np.abs(before.score - before.baseline_score)
    assert (np.abs(before.delta) > 1e-3 * difference).any()


def test_auto_says_when_it_did_not_reach_the_tolerance(trained):
    """A warning with the numbers, and the same in the settings."""
    model, x, y, _ = trained
    # Not `pytest.warns`, which also tells again what Keras itself warns of.
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        a = gw.integrated_gradients(
            model, x[:1], gw.class_score(y[:1]), steps="auto", tolerance=1e-12
        )
    texts = [str(warning.message) for warning in told]
    assert any("after 1024 steps" in t and "not 1e-12 as asked" in t for t in texts)
    assert a.settings["steps"] == 1024
    assert a.settings["reached"] is False
    assert a.settings["error"] > 1e-12


def test_explanations_point_at_the_patch(trained):
    """Far more than by chance (0.17) of what a method gives lies in the patch."""
    model, x, y, at = trained
    methods = {
        "integrated_gradients": (0.6, {}),
        "input_x_gradient": (0.6, {}),
        "smoothgrad": (0.6, {"samples": 10, "method": gw.input_x_gradient}),
        "deep_lift": (0.6, {}),
        "occlusion": (0.6, {"window": 2}),
        "guided_grad_cam": (0.4, {"layer": "deep"}),
        "grad_cam": (0.3, {"layer": "deep"}),
        "layer_cam": (0.3, {"layer": "deep"}),
    }
    for name, (least, options) in methods.items():
        a = getattr(attribute, name)(model, x, gw.class_score(y), **options)
        if a.places[0].channels is not None:
            a = a.sum_channels()
        heat = np.maximum(a.upsample((12, 12)).values, 0)
        inside = [
            image[top : top + 5, left : left + 5].sum() / image.sum()
            for image, (top, left) in zip(heat, at, strict=True)
        ]
        assert np.mean(inside) > least, (name, inside)


def test_an_attack_lowers_the_score_and_raises_the_loss(trained):
    """The score falls; with a loss and labels, the loss rises."""
    model, x, y, _ = trained
    target = gw.class_score(y)
    before = gw.saliency(model, x, target).score
    moved = attribute.fgsm(model, x, target, epsilon=0.1)
    assert (gw.saliency(model, moved, target).score < before).all()
    further = attribute.pgd(model, x, target, epsilon=0.1, step=0.03, steps=10)
    assert (
        gw.saliency(model, further, target).score
        < gw.saliency(model, moved, target).score + 1e-3
    ).all()
    loss = model.evaluate(x, y, verbose=0)[0]
    moved = attribute.fgsm(model, x, gw.loss(), y=y, epsilon=0.1)
    assert model.evaluate(moved, y, verbose=0)[0] > loss


@pytest.fixture(scope="module")
def linear():
    return fill(keras.Sequential([keras.Input((6,)), layers.Dense(3, name="head")]))


def test_a_linear_model_gives_the_closed_form_exactly(linear):
    """w · (x − x′), whatever the number of steps, samples or windows."""
    x, start = numbers(3, 6), numbers(3, 6, seed=9)
    kernel = linear.get_weights()[0].T[CLASSES]
    target = gw.class_score(CLASSES)
    share = kernel * (x - start)
    for steps, rule in ((1, "gauss_legendre"), (3, "trapezoid")):
        a = gw.integrated_gradients(
            linear, x, target, baseline=start, steps=steps, rule=rule
        )
        close(a.values, share, 1e-5)
        assert np.abs(a.delta).max() < 1e-5
    close(attribute.deep_lift(linear, x, target, baseline=start).values, share, 1e-5)
    close(attribute.occlusion(linear, x, target, baseline=start).values, share, 1e-5)
    close(gw.input_x_gradient(linear, x, target).values, kernel * x, 1e-5)
    close(gw.saliency(linear, x, target).values, np.abs(kernel), 1e-5)
    close(gw.smoothgrad(linear, x, target, samples=3).values, np.abs(kernel), 1e-5)
    expected = attribute.expected_gradients(
        linear, x, target, data=start[:1], samples=4
    )
    close(expected.values, kernel * (x - start[:1]), 1e-5)
