"""Every gradient of every kind of model equals a central difference in float64."""

import numpy as np
import pytest

from .addresses import drawn
from .cases import named
from .frameworks import array, double_precision, quick_compilation
from .looks import disturbed_loss, disturbed_waves, look, look_at_waves

ALL = named("half", "large")


@pytest.fixture(autouse=True)
def double():
    with double_precision(), quick_compilation():
        yield


def agree(seen, disturbed):
    """Names the points whose gradient is not the derivative that was measured."""
    gradients = {name: array(g) for name, g in seen.gradients.items()}
    value, activations = disturbed.undisturbed()
    assert float(array(seen.gradients.value)) == pytest.approx(value, rel=1e-10)
    wrong = []
    for name, measured in disturbed.derivatives().items():
        if name not in activations:
            wrong.append(f"{name}: the twin found no such tensor")
            continue
        gradient = gradients[name]
        claimed = float(np.sum(gradient * drawn(name, gradient.shape, seed=1)))
        scale = np.linalg.norm(gradient)
        if not abs(claimed - measured) <= 1e-6 * scale + 1e-9 * (1 + abs(value)):
            wrong.append(f"{name}: {claimed} claimed, {measured} measured")
        if "/" in name and name.rpartition("/")[2] in ("kernel", "bias"):
            continue
    return wrong


def shapes(gradients):
    return {name: tuple(gradients[name].shape) for name in gradients}


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_the_loss_are_what_finite_differences_measure(name):
    """Weights, inputs, and every tensor in and out of every call of every layer."""
    seen = look(name)
    assert len(seen.gradients) >= 6
    assert agree(seen, disturbed_loss(seen, shapes(seen.gradients))) == []


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_a_function_are_what_finite_differences_measure(name):
    """The same for a function of all outputs in inference mode."""
    seen = look_at_waves(name)
    assert len(seen.gradients) >= 6
    assert agree(seen, disturbed_waves(seen, shapes(seen.gradients))) == []
