"""Against Captum's `infidelity` and `sensitivity_max`, with the very same draws."""

import warnings

import numpy as np
import pytest
import torch

import gradwatch as gw
from gradwatch.attribute import quality

from ..captum_twin import Cnn, asked, attr, first, quietly
from ..models import CLASSES, START, X, close

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from captum import metrics

TARGET = gw.class_score(CLASSES)
SAMPLES = 4


@pytest.fixture(scope="module")
def twin(image_model):
    return Cnn(image_model).eval()


def in_their_order(drawn):
    """[samples, examples, …] as Captum repeats examples: all of the first, then on."""
    each = np.swapaxes(np.stack(drawn), 0, 1)
    return first(each.reshape(-1, *each.shape[2:]))


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("name", ["saliency", "integrated_gradients"])
def test_infidelity(image_model, twin, name, normalise):
    """For a gradient, and for a gain, whose perturbation is divided by x − x′."""
    if name == "saliency":
        a = gw.saliency(image_model, X, TARGET, absolute=False)
        theirs = asked(attr.Saliency(twin), first(X), abs=False)
    else:
        a = gw.integrated_gradients(image_model, X, TARGET, baseline=START, steps=9)
        theirs = asked(
            attr.IntegratedGradients(twin),
            first(X),
            baselines=first(START),
            n_steps=9,
            method="gausslegendre",
        )
    drawn = []

    def noise(values, random):
        drawn.append(0.3 * random.normal(size=values.shape).astype("float32"))
        return drawn[-1]

    ours = quality.infidelity(
        a, image_model, perturbation=noise, samples=SAMPLES, normalise=normalise
    )

    def perturb(inputs, baselines=None):
        taken = in_their_order(drawn)
        way = 1.0 if name == "saliency" else inputs - baselines
        return taken / way, inputs - taken

    options = {} if name == "saliency" else {"baselines": first(START)}
    expected = quietly(
        metrics.infidelity,
        twin,
        perturb,
        first(X),
        theirs,
        target=torch.tensor(CLASSES),
        n_perturb_samples=SAMPLES,
        normalize=normalise,
        **options,
    )
    close(ours.values, expected.detach().numpy(), 1e-3)


def test_sensitivity_max(image_model, twin):
    """What Captum gives is relative to the size of the explanation."""
    a = gw.input_x_gradient(image_model, X, TARGET)
    ours = quality.sensitivity_max(a, image_model, radius=0.2, samples=SAMPLES, seed=3)
    random = np.random.default_rng(3)
    drawn = [random.uniform(-0.2, 0.2, X.shape) for _ in range(SAMPLES)]

    def perturb(inputs, radius):
        whole = inputs[0] if isinstance(inputs, tuple) else inputs
        return whole + in_their_order(drawn)

    explain = attr.InputXGradient(twin)
    expected = quietly(
        metrics.sensitivity_max,
        explain.attribute,
        first(X),
        perturb_func=perturb,
        perturb_radius=0.2,
        n_perturb_samples=SAMPLES,
        target=torch.tensor(CLASSES),
    )
    close(ours.relative, expected.detach().numpy())
