"""Every method that Captum has too, on the same weights: equal to 1e-4."""

import keras
import numpy as np
import pytest
import torch

import gradwatch as gw
from gradwatch import attribute

from .captum_twin import Cnn, Pool, Text, asked, attr, first, last, quietly, robust
from .models import CLASSES, START, TOKENS, X, close, pooled

TARGET = gw.class_score(CLASSES)


@pytest.fixture(scope="module")
def twin(image_model):
    return Cnn(image_model).eval()


def test_the_two_networks_are_one(image_model, twin):
    """Otherwise nothing below says anything: the scores agree."""
    theirs = twin(first(X)).detach().numpy()[np.arange(3), CLASSES]
    close(gw.saliency(image_model, X, TARGET).score, theirs, 1e-5)


def test_saliency(image_model, twin):
    """Captum's `Saliency`."""
    close(
        gw.saliency(image_model, X, TARGET).values,
        last(asked(attr.Saliency(twin), first(X))),
    )


def test_input_x_gradient(image_model, twin):
    """Captum's `InputXGradient`."""
    close(
        gw.input_x_gradient(image_model, X, TARGET).values,
        last(asked(attr.InputXGradient(twin), first(X))),
    )


def test_integrated_gradients(image_model, twin):
    """Captum's `IntegratedGradients`, by Gauss–Legendre and by trapezoids."""
    method, options = attr.IntegratedGradients(twin), {"baselines": first(START)}
    theirs = asked(method, first(X), **options, n_steps=50)
    ours = gw.integrated_gradients(image_model, X, TARGET, baseline=START)
    close(ours.values, last(theirs))
    theirs = asked(method, first(X), **options, n_steps=9, method="riemann_trapezoid")
    ours = gw.integrated_gradients(
        image_model, X, TARGET, baseline=START, steps=8, rule="trapezoid"
    )
    # The weights of Captum's trapezoids add up to 8/9 instead of 1.
    close(ours.values, last(theirs) * 9 / 8)


def test_integrated_gradients_of_a_layer(image_model, twin):
    """Captum's `LayerIntegratedGradients`: a baseline of inputs, for a layer."""
    method = attr.LayerIntegratedGradients(twin, twin.relu2)
    theirs = asked(method, first(X), baselines=first(START), n_steps=50)
    ours = gw.integrated_gradients(image_model, X, TARGET, layer="relu", baseline=START)
    close(ours.values, last(theirs))


def test_integrated_gradients_of_tokens(text_model):
    """The embedding of a text model; the baseline is the token 0."""
    twin = Text(text_model).eval()
    method = attr.LayerIntegratedGradients(twin, twin.embed)
    tokens = torch.tensor(TOKENS)
    theirs = asked(method, tokens, baselines=torch.zeros_like(tokens), n_steps=50)
    ours = gw.integrated_gradients(
        text_model, TOKENS, TARGET, layer="embed", baseline=np.zeros_like(TOKENS)
    )
    close(ours.values, theirs.detach().numpy())


def test_smoothgrad(image_model, twin, monkeypatch):
    """Captum's `NoiseTunnel`, which is given our noise."""
    random = np.random.default_rng(4)
    scale = 0.2 * np.ptp(X, axis=(1, 2, 3), keepdims=True)
    draws = [scale * random.standard_normal(X.shape, "float32") for _ in range(6)]
    # It draws for six copies of the first example, then of the second, …
    noise = np.stack(draws, axis=1).reshape(-1, *X.shape[1:])
    monkeypatch.setattr(torch, "normal", lambda mean, stdev: first(noise))
    kinds = {"smoothgrad": "smoothgrad", "smoothgrad_sq": "squaregrad"}
    kinds["vargrad"] = "vargrad"
    for theirs, ours in kinds.items():
        method = attr.NoiseTunnel(attr.Saliency(twin))
        options = {"nt_type": theirs, "nt_samples": 6, "stdevs": 1.0}
        found = asked(method, first(X), **options)
        function = getattr(attribute, ours)
        mine = function(image_model, X, TARGET, samples=6, noise=0.2, seed=4)
        close(mine.values, last(found))


def test_smoothgrad_of_another_method(image_model, twin, monkeypatch):
    """Captum's `NoiseTunnel` around `IntegratedGradients`, of all three kinds."""
    random = np.random.default_rng(7)
    scale = 0.1 * np.ptp(X, axis=(1, 2, 3), keepdims=True)
    draws = [scale * random.standard_normal(X.shape, "float32") for _ in range(4)]
    noise = np.stack(draws, axis=1).reshape(-1, *X.shape[1:])
    monkeypatch.setattr(torch, "normal", lambda mean, stdev: first(noise))
    kinds = {"smoothgrad": "smoothgrad", "smoothgrad_sq": "squaregrad"}
    for theirs, ours in {**kinds, "vargrad": "vargrad"}.items():
        method = attr.NoiseTunnel(attr.IntegratedGradients(twin))
        options = {"nt_type": theirs, "nt_samples": 4, "stdevs": 1.0}
        found = asked(method, first(X), baselines=first(START), n_steps=12, **options)
        mine = getattr(attribute, ours)(
            *(image_model, X, TARGET),
            method=gw.integrated_gradients,
            baseline=START,
            steps=12,
            samples=4,
            noise=0.1,
            seed=7,
        )
        close(mine.values, last(found))


def test_expected_gradients(image_model, twin, monkeypatch):
    """Captum's `GradientShap`, which is given our places and a single baseline."""
    random = np.random.default_rng(3)
    random.integers(1, size=(7, 3))
    alphas = random.uniform(size=(7, 3)).astype("float32")
    monkeypatch.setattr(np.random, "uniform", lambda low, high, size: alphas.T.ravel())
    method = attr.GradientShap(twin)
    theirs = asked(
        method, first(X), baselines=first(START[:1]), n_samples=7, stdevs=0.0
    )
    ours = attribute.expected_gradients(
        image_model, X, TARGET, data=START[:1], samples=7, seed=3
    )
    close(ours.values, last(theirs))


def test_expected_gradients_of_a_layer(monkeypatch):
    """Captum's `LayerGradientShap`, at a layer that is linear in the input.

    Captum goes straight in the inputs and we go straight in the layer, which is what
    adds up: behind a nonlinearity the two differ.
    """
    random = np.random.default_rng(3)
    random.integers(1, size=(7, 3))
    alphas = random.uniform(size=(7, 3)).astype("float32")
    monkeypatch.setattr(np.random, "uniform", lambda low, high, size: alphas.T.ravel())
    model = pooled()
    net = Pool(model)
    theirs = asked(
        attr.LayerGradientShap(net, net.conv),
        first(X),
        baselines=first(START[:1]),
        n_samples=7,
        stdevs=0.0,
    )
    options = {"layer": "conv", "data": START[:1], "samples": 7, "seed": 3}
    ours = attribute.expected_gradients(model, X, TARGET, **options)
    close(ours.values, last(theirs))


def test_guided_backprop_and_deconvnet(image_model, twin):
    """Captum's `GuidedBackprop` and `Deconvolution`."""
    theirs = asked(attr.GuidedBackprop(twin), first(X))
    close(attribute.guided_backprop(image_model, X, TARGET).values, last(theirs))
    theirs = asked(attr.Deconvolution(twin), first(X))
    close(attribute.deconvnet(image_model, X, TARGET).values, last(theirs))


def test_grad_cam(image_model, twin):
    """Captum's `LayerGradCam`, before and after the rectifier."""
    for relu in (False, True):
        method = attr.LayerGradCam(twin, twin.relu2)
        theirs = asked(method, first(X), relu_attributions=relu)
        ours = gw.grad_cam(image_model, X, TARGET, layer="relu", relu=relu)
        close(ours.values, last(theirs)[..., 0])


def test_guided_grad_cam(image_model, twin):
    """Captum's `GuidedGradCam`, which interpolates as it is told."""
    method = attr.GuidedGradCam(twin, twin.relu2)
    theirs = asked(method, first(X), interpolate_mode="bilinear")
    ours = attribute.guided_grad_cam(image_model, X, TARGET, layer="relu")
    close(ours.values, last(theirs))


def test_layer_gradient_x_activation(image_model, twin):
    """Captum's `LayerGradientXActivation`."""
    method = attr.LayerGradientXActivation(twin, twin.relu1)
    ours = attribute.layer_gradient_x_activation(image_model, X, TARGET, layer="conv")
    close(ours.values, last(asked(method, first(X))))


def test_internal_influence(image_model, twin):
    """Captum's `InternalInfluence`."""
    method = attr.InternalInfluence(twin, twin.relu2)
    theirs = asked(method, first(X), baselines=first(START), n_steps=50)
    ours = attribute.internal_influence(
        image_model, X, TARGET, layer="relu", baseline=START
    )
    close(ours.values, last(theirs))


def test_layer_conductance(image_model, twin):
    """Captum's `LayerConductance`, which takes the gradient where a step begins."""
    method = attr.LayerConductance(twin, twin.relu2)
    options = {"n_steps": 9, "method": "riemann_trapezoid"}
    theirs = asked(method, first(X), baselines=first(START), **options)
    ours = attribute.layer_conductance(
        image_model, X, TARGET, layer="relu", baseline=START, steps=9, rule="left"
    )
    close(ours.values, last(theirs))


def test_neurons(image_model, twin):
    """Captum's `NeuronGradient`, `NeuronIntegratedGradients`, `NeuronConductance`."""
    theirs = asked(
        attr.NeuronGradient(twin, twin.mid),
        first(X),
        neuron_selector=(3, 1, 2),
        target=None,
    )
    ours = gw.saliency(image_model, X, gw.neuron("mid", (1, 2, 3)), absolute=False)
    close(ours.values, last(theirs))
    theirs = asked(
        attr.NeuronIntegratedGradients(twin, twin.tanh),
        first(X),
        neuron_selector=3,
        baselines=first(START),
        target=None,
    )
    ours = gw.integrated_gradients(
        image_model, X, gw.neuron("hidden", 3), baseline=START
    )
    close(ours.values, last(theirs))
    theirs = asked(
        attr.NeuronConductance(twin, twin.tanh),
        first(X),
        neuron_selector=3,
        baselines=first(START),
        n_steps=50,
        method="gausslegendre",
    )
    ours = attribute.neuron_conductance(
        image_model, X, TARGET, layer="hidden", neuron=3, baseline=START
    )
    close(ours.values, last(theirs))


def test_deep_lift(image_model, twin):
    """Captum's `DeepLift` and `LayerDeepLift`."""
    theirs = asked(attr.DeepLift(twin), first(X), baselines=first(START))
    ours = attribute.deep_lift(image_model, X, TARGET, baseline=START)
    close(ours.values, last(theirs))
    method = attr.LayerDeepLift(twin, twin.relu1)
    theirs = asked(method, first(X), baselines=first(START))
    ours = attribute.deep_lift(image_model, X, TARGET, layer="conv", baseline=START)
    close(ours.values, last(theirs))


def test_deep_lift_through_max_pooling():
    """Captum shares the difference of a maximum in the same way; it is complete."""
    # After a ReLU an example and its reference are often equal, namely zero; there
    # Captum 0.9 takes the gradient of the first example for that of all.
    model = pooled()
    theirs = asked(attr.DeepLift(Pool(model)), first(X), baselines=first(START))
    ours = attribute.deep_lift(model, X, TARGET, baseline=START)
    close(ours.values, last(theirs))
    assert np.abs(ours.delta).max() < 1e-4


def test_occlusion(image_model, twin):
    """Captum's `Occlusion`, the last windows reaching over the edge."""
    theirs = asked(
        attr.Occlusion(twin),
        first(X),
        sliding_window_shapes=(2, 3, 2),
        strides=(1, 2, 2),
        baselines=first(START),
    )
    ours = attribute.occlusion(
        image_model, X, TARGET, window=(3, 2), stride=(2, 2), baseline=START
    )
    close(ours.values, last(theirs)[..., 0])
    assert np.ptp(last(theirs), axis=-1).max() < 1e-6


def test_adversarial(image_model, twin):
    """Captum's `FGSM` and `PGD`, told to lower the score."""

    def fall(outputs, labels):
        return -outputs[torch.arange(3), labels]

    labels = torch.tensor(CLASSES)
    theirs = quietly(robust.FGSM(twin, fall).perturb, first(X), 0.1, labels)
    close(attribute.fgsm(image_model, X, TARGET, epsilon=0.1), last(theirs), 1e-5)
    attack = robust.PGD(twin, fall, lower_bound=-1.5, upper_bound=1.5)
    theirs = quietly(attack.perturb, first(X), 0.25, 0.1, 5, labels)
    ours = attribute.pgd(
        image_model, X, TARGET, epsilon=0.25, step=0.1, steps=5, bounds=(-1.5, 1.5)
    )
    close(ours, last(theirs), 1e-5)


def test_adversarial_against_a_loss(image_model, twin):
    """Away from the labels, and towards others (`targeted`, `goal="lower"`)."""
    loss = gw.loss(keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    cross = torch.nn.CrossEntropyLoss(reduction="none")
    labels = torch.tensor(CLASSES)
    theirs = quietly(robust.FGSM(twin, cross).perturb, first(X), 0.1, labels)
    ours = attribute.fgsm(image_model, X, loss, y=CLASSES, epsilon=0.1)
    close(ours, last(theirs), 1e-5)
    attack, to = robust.PGD(twin, cross), (CLASSES + 1) % 3
    theirs = quietly(
        attack.perturb, first(X), 0.25, 0.1, 3, torch.tensor(to), targeted=True
    )
    options = {"epsilon": 0.25, "step": 0.1, "steps": 3, "goal": "lower"}
    ours = attribute.pgd(image_model, X, loss, y=to, **options)
    # Where a gradient is nothing but rounding, its sign is chance, and a step with it.
    apart = np.abs(ours - last(theirs))
    assert np.mean(apart < 1e-5) > 0.97
    assert np.mean(np.abs(ours - X) > 0.09) > 0.9
