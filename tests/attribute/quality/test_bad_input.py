"""What cannot be checked is refused, with the way out."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch import attribute
from gradwatch.attribute import quality
from gradwatch.testing import assert_untouched

from ..models import CLASSES, X, fill, numbers

TARGET = gw.class_score(CLASSES)
CHECKS = ("sensitivity_max", "infidelity", "deletion", "insertion", "randomisation")


@pytest.fixture(scope="module")
def a(image_model):
    return gw.input_x_gradient(image_model, X, TARGET)


def with_values(a, values, channels=3):
    return replace(a, places=(replace(a.places[0], values=values, channels=channels),))


BAD = {
    "radius": (lambda a, m: quality.sensitivity_max(a, m, radius=0), "`radius` must"),
    "radius below": (
        lambda a, m: quality.sensitivity_max(a, m, radius=-1.0),
        "`radius` must be a number above 0. Received: -1.0",
    ),
    "radius nan": (
        lambda a, m: quality.sensitivity_max(a, m, radius=float("nan")),
        "`radius` must be a number above 0",
    ),
    "samples": (
        lambda a, m: quality.sensitivity_max(a, m, samples=0),
        "`samples` must be a whole number from 1",
    ),
    "samples of infidelity": (
        lambda a, m: quality.infidelity(a, m, samples=2.5),
        "`samples` must be a whole number from 1",
    ),
    "perturbation": (
        lambda a, m: quality.infidelity(a, m, perturbation="circle"),
        "`perturbation` must be one of",
    ),
    "perturbation shape": (
        lambda a, m: quality.infidelity(a, m, perturbation=lambda v, r: v[:, :2]),
        "`perturbation` must give what is taken away .* of shape",
    ),
    "perturbation nan": (
        lambda a, m: quality.infidelity(a, m, perturbation=lambda v, r: v * np.nan),
        "(?s)`perturbation` must give .* in finite numbers .* nan",
    ),
    "size": (lambda a, m: quality.infidelity(a, m, size=0), "`size` must be a number"),
    "square": (
        lambda a, m: quality.infidelity(a, m, perturbation="square", size=1.5),
        "`size` must be a share of the image",
    ),
    "summed": (
        lambda a, m: quality.infidelity(a.sum_channels(), m),
        "`a` must have a value for each number .* before `sum_channels`",
    ),
    "steps": (lambda a, m: quality.deletion(a, m, steps=0), "`steps` must be a whole"),
    "orders": (lambda a, m: quality.insertion(a, m, orders=-1), "`orders` must be a"),
    "baseline": (
        lambda a, m: quality.deletion(a, m, baseline="black"),
        "`baseline` must be one of",
    ),
    "batch size": (
        lambda a, m: quality.deletion(a, m, batch_size=0),
        "`batch_size` must be a whole number",
    ),
    "progress": (
        lambda a, m: quality.deletion(a, m, progress="yes"),
        "`progress` must be True, False or None",
    ),
    "order": (
        lambda a, m: quality.randomisation(a, m, order="upwards"),
        "`order` must be one of",
    ),
    "layers": (
        lambda a, m: quality.randomisation(a, m, layers="conf"),
        "`layers` must .*'conv'",
    ),
    "seed": (lambda a, m: quality.randomisation(a, m, seed=-1), "`seed` must be a"),
    "seed of changes": (
        lambda a, m: quality.sensitivity_max(a, m, seed=-1),
        "`seed` must be a whole number from 0",
    ),
    "seed of perturbations": (
        lambda a, m: quality.infidelity(a, m, seed="a"),
        "`seed` must be a whole number from 0",
    ),
    "seed of orders": (
        lambda a, m: quality.deletion(a, m, seed=1.5),
        "`seed` must be a whole number from 0",
    ),
    "other batch": (
        lambda a, m: quality.deletion(a, m, X[:, :2]),
        "`x` must have shape",
    ),
    "empty batch": (
        lambda a, m: quality.deletion(a, m, X[:0]),
        "`x` must have at least one example",
    ),
    "resized": (
        lambda a, m: quality.deletion(with_values(a, a.values[:, 0, 0], None), m),
        "`a` must have a value for each position",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_argument_that_cannot_be_used_is_refused(a, image_model, case):
    """The message names the argument; the model is as before."""
    call, message = BAD[case]
    with assert_untouched(image_model):
        with pytest.raises(gw.GradwatchError, match=message):
            call(a, image_model)


@pytest.mark.parametrize("check", CHECKS)
def test_what_a_check_needs_is_said_alike(a, image_model, check, tmp_path):
    """An attribution that knows how it was made, its model, finite numbers."""
    ask = getattr(quality, check)
    a.save(tmp_path / "why.npz")
    loaded = gw.Attribution.load(tmp_path / "why.npz")
    small = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    for found, model, message in (
        (loaded, image_model, "`a` must know how it was made. .*`input_x_gradient`"),
        (a[0], image_model, "`a` must know how it was made"),
        (a.values, image_model, "`a` must be an `Attribution`"),
        (a, "model", "`model` must be a Keras"),
        (a, small, "`x` must have shape .*Received: "),
        (with_values(a, a.values * np.nan), image_model, "`a` must hold finite"),
    ):
        with pytest.raises(gw.GradwatchError, match=message):
            ask(found, model)


@pytest.mark.parametrize("check", ["infidelity", "deletion", "insertion"])
def test_other_weights_are_another_model(a, image_model, check):
    """What has been trained since is not what was explained."""
    other = fill(keras.models.clone_model(image_model), seed=50)
    with pytest.raises(gw.GradwatchError, match="`model` must be the one .*a.again"):
        getattr(quality, check)(a, other)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("saliency", {}, "promise no sum"),
        ("expected_gradients", {"data": X, "samples": 1}, "on average"),
        ("smoothgrad", {"samples": 1}, "noisy copies"),
    ],
)
def test_completeness_is_asked_only_of_those_who_promise_it(
    image_model, name, options, why
):
    """The message says why, and what else there is."""
    a = getattr(attribute, name)(image_model, X, TARGET, **options)
    with pytest.raises(gw.GradwatchError, match=f"`a` must come from .*{why}"):
        quality.completeness(a)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("saliency", {}, "`a` must say what a change .*absolute=False.* without signs"),
        ("grad_cam", {"layer": "conv"}, "`a` must say what a change .* only order"),
        ("vargrad", {"samples": 1}, "`a` must say what a change .* without signs"),
        ("layer_conductance", {"layer": "conv", "steps": 1}, "`a` must say what a"),
    ],
)
def test_infidelity_is_asked_only_of_values_with_a_unit(
    image_model, name, options, message
):
    """Others have deletion and insertion."""
    a = getattr(attribute, name)(image_model, X, TARGET, **options)
    with pytest.raises(gw.GradwatchError, match=message):
        quality.infidelity(a, image_model)


def test_a_model_that_breaks_nearby_is_named():
    """NaN at the perturbed inputs is no number to compare with."""
    model = keras.Sequential(
        [keras.Input((2,)), layers.Lambda(keras.ops.log), layers.Dense(1)]
    )
    a = gw.input_x_gradient(model, np.ones((2, 2), "float32"), gw.output())
    with pytest.raises(gw.GradwatchError, match="`model` must give finite numbers"):
        quality.deletion(a, model)


def test_a_model_without_weights_has_nothing_to_draw():
    """The message says so."""
    model = keras.Sequential([keras.Input((3,)), layers.ReLU()])
    a = gw.saliency(model, numbers(2, 3), gw.class_score(0))
    with pytest.raises(
        gw.GradwatchError, match=r"`layers` must be some .* Received: \[\]"
    ):
        quality.randomisation(a, model)


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_leaves_no_trace(image_model, a, check):
    """Weights, seeds, methods, Keras, random streams; the attribution neither."""
    before = a.values.copy()
    few = {
        "deletion": {"steps": 3, "orders": 1},
        "insertion": {"steps": 3, "orders": 1},
    }
    with assert_untouched(image_model):
        getattr(quality, check)(a, image_model, **few.get(check, {}))
    assert np.array_equal(a.values, before)
