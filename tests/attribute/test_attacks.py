"""Adversarial examples at a layer: where tokens have numbers that can be moved."""

import keras
import numpy as np
import pytest
from tests.zoo import zoo

import gradwatch as gw
from gradwatch import attribute

from .models import CLASSES, START, TOKENS, X, close

TARGET = gw.class_score(CLASSES)
LOSS = gw.loss(keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def test_fgsm_moves_the_embedding_of_tokens(text_model):
    """What the embedding gives, each number by epsilon against its gradient."""
    a = gw.saliency(text_model, TOKENS, TARGET, layer="embed", absolute=False)
    moved = attribute.fgsm(text_model, TOKENS, TARGET, layer="embed", epsilon=0.1)
    close(moved, a.activation - 0.1 * np.sign(a.values), 1e-5)


def test_fgsm_raises_a_loss_at_a_layer(image_model):
    """Against the labels, with the gradient of the loss there."""
    found = gw.gradients(
        image_model,
        X,
        CLASSES,
        target=LOSS,
        wrt=gw.activations("conv"),
        training=False,
    )
    own = keras.ops.convert_to_numpy(found.activation("conv"))
    slope = keras.ops.convert_to_numpy(found["conv"])
    moved = attribute.fgsm(
        image_model, X, LOSS, y=CLASSES, layer="conv", epsilon=0.1, bounds=(0, 2)
    )
    close(moved, np.clip(own + 0.1 * np.sign(slope), 0, 2), 1e-5)


@pytest.mark.parametrize("target", ["score", "loss"])
def test_pgd_goes_on_from_what_it_moved(image_model, target):
    """Two steps at a layer are one and one more from there, within the ball."""
    chosen, y = (TARGET, None) if target == "score" else (LOSS, CLASSES)
    options = {"layer": "relu", "epsilon": 0.15, "step": 0.1, "y": y}
    once = attribute.pgd(image_model, X, chosen, **options, steps=1)
    twice = attribute.pgd(image_model, X, chosen, **options, steps=2)
    own = gw.saliency(image_model, X, TARGET, layer="relu").activation
    assert np.abs(once - own).max() <= 0.1 + 1e-5
    assert 0.1 < np.abs(twice - own).max() <= 0.15 + 1e-5


def test_several_tensors_come_back_by_name():
    """Both calls of a shared layer, each with its own numbers."""
    model, x, _ = zoo()["siamese"].build()
    target = gw.mean_output()
    own = gw.saliency(model, x, target, layer="shared").activation
    moved = attribute.fgsm(model, x, target, layer="shared", epsilon=0.1)
    assert list(moved) == ["shared@1", "shared@2"]
    assert all(0.09 < np.abs(moved[name] - own[name]).max() < 0.11 for name in own)


BAD = {
    "tokens": (
        lambda m, t: attribute.fgsm(t, TOKENS, TARGET, epsilon=0.1),
        "`layer='embed'`",
    ),
    "bounds": (
        lambda m, t: attribute.fgsm(m, X, TARGET, epsilon=0.1, bounds=(1, 0)),
        r"`bounds` must be the least .*\(1, 0\)",
    ),
    "one bound": (
        lambda m, t: attribute.fgsm(m, X, TARGET, epsilon=0.1, bounds=1.0),
        "`bounds` must be the least",
    ),
    "steps": (
        lambda m, t: attribute.pgd(m, X, TARGET, epsilon=0.1, step=0.1, steps=0),
        "`steps` must be a whole number from 1",
    ),
    "layer": (
        lambda m, t: attribute.fgsm(m, X, LOSS, y=CLASSES, layer="hiden", epsilon=0.1),
        "`layer` must .*'hidden'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_attacked_is_refused(image_model, text_model, case):
    """With the argument that the function has."""
    call, message = BAD[case]
    with pytest.raises(gw.GradwatchError, match=message):
        call(image_model, text_model)


FOLLOWS = {
    "internal_influence": {"layer": "window"},
    "layer_conductance": {"layer": "embed"},
    "neuron_conductance": {"layer": "window", "neuron": (0, 0)},
    "score_cam": {"layer": "window"},
    "guided_grad_cam": {"layer": "window"},
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_tokens_cannot_be_followed_and_the_way_out_is_another_method(text_model, name):
    """A layer is named already: the message does not ask for one."""
    with pytest.raises(gw.GradwatchError, match=r"integrated_gradients\(…, layer='emb"):
        getattr(attribute, name)(text_model, TOKENS, TARGET, **FOLLOWS[name])


def test_tokens_are_attributed_to_a_neuron_at_their_embedding(text_model):
    """The inputs have no gradient; the layer that makes them numbers has one."""
    target = gw.neuron("window", (0, 0))
    with pytest.raises(gw.GradwatchError, match="`x` must hold .*`layer='embed'`"):
        gw.saliency(text_model, TOKENS, target)
    a = gw.saliency(text_model, TOKENS, target, layer="embed")
    assert a.layer == "embed"
    assert a.values[:, 0].any()
    assert not a.values[:, -1].any()  # far outside the window


def test_noise_goes_over_a_neuron_too(image_model):
    """A neuron is a target as any other."""
    target = gw.neuron("hidden", 3)
    a = gw.smoothgrad(image_model, X, target, samples=4, seed=1, absolute=False)
    random, scale = np.random.default_rng(1), 0.15 * np.ptp(X, (1, 2, 3), keepdims=True)
    total = 0
    for _ in range(4):
        noisy = X + scale * random.standard_normal(X.shape, "float32")
        total += gw.saliency(image_model, noisy, target, absolute=False).values
    close(a.values, total / 4, 1e-5)
    found = attribute.quality.infidelity(a, image_model, baseline=START, samples=2)
    assert found.values.shape == (3,)
