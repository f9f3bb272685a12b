"""Every gradient of every kind of model equals a central difference in float64."""

import numpy as np
import pytest

from .cases import named
from .frameworks import array, double_precision, quick_compilation
from .looks import disturbed_loss, disturbed_waves, look, look_at_waves

ALL = named("half", "large")


@pytest.fixture(autouse=True)
def double():
    with double_precision(), quick_compilation():
        yield


def faults(seen, disturb):
    """What is wrong with a look, one sentence each."""
    rows = [row for row in seen.gradients.summary() if can_be_moved(row, seen)]
    gradients = {
        row.name: array(seen.gradients[row.name])
        if row.name in seen.gradients
        else np.zeros(row.shape)
        for row in rows
    }
    disturbed = disturb(seen, {row.name: row.shape for row in rows})
    value, tensors = disturbed.undisturbed()
    assert float(array(seen.gradients.value)) == pytest.approx(value, rel=1e-10)
    not_found = [row.name for row in rows if row.name not in tensors]
    not_kept = [
        row.name
        for row in rows
        if row.kind != "weight"
        and row.name in tensors
        and not np.allclose(
            array(seen.gradients.activation(row.name)), tensors[row.name], rtol=1e-9
        )
    ]
    assert (not_found, not_kept) == ([], [])
    return disturbed.wrong(gradients)


def can_be_moved(row, seen):
    """Whether there is a floating-point tensor; without a path its gradient is 0."""
    reason = seen.gradients.missing.get(row.name)
    return reason is None or reason.cause == "not_on_path"


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_the_loss_are_what_finite_differences_measure(name):
    """Weights, inputs, and every tensor in and out of every call of every layer."""
    seen = look(name)
    assert len(seen.gradients) >= 6
    assert faults(seen, disturbed_loss) == []


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_a_function_are_what_finite_differences_measure(name):
    """The same for a function of all outputs in inference mode."""
    seen = look_at_waves(name)
    assert len(seen.gradients) >= 6
    assert faults(seen, disturbed_waves) == []
