"""Every gradient of every kind of model equals a central difference in float64."""

import re

import numpy as np
import pytest

import gradwatch as gw

from .cases import each, named
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


@each(ALL)
def test_gradients_of_the_loss_are_what_finite_differences_measure(name):
    """Weights, inputs, and every tensor in and out of every call of every layer."""
    seen = look(name)
    assert len(seen.gradients) >= 6
    assert faults(seen, disturbed_loss) == []


@each(ALL)
def test_gradients_of_a_function_are_what_finite_differences_measure(name):
    """The same for a function of all outputs in inference mode."""
    seen = look_at_waves(name)
    assert len(seen.gradients) >= 6
    assert faults(seen, disturbed_waves) == []


SHARED = {
    "siamese": ("shared", 2),
    "shared_shapes": ("shared", 3),
    "direct_call": ("direct/other", 2),
    "structures": ("head", 2),
    "unrolled": ("gru/cell", 4),
}


@each(SHARED)
def test_the_share_of_each_call_is_what_finite_differences_measure(name):
    """The weight is moved during one call only; the shares add up to the whole."""
    layer, calls = SHARED[name]
    seen = look(name)
    wrt = gw.weights(layer, per_call=True)
    found = gw.gradients(seen.model, seen.x, seen.y, wrt=wrt)
    whole = [n for n in found if n.startswith(f"{layer}/")]
    shares = [n for n in found if n.startswith(f"{layer}@")]
    assert len(shares) == calls * len(whole) > 0
    for weight in whole:
        own = weight.rpartition("/")[2]
        parts = [array(found[f"{layer}@{n}/{own}"]) for n in range(1, calls + 1)]
        assert np.allclose(sum(parts), array(found[weight]), atol=1e-12)
        if own != "bias":  # two calls whose outputs are added share theirs equally
            assert not np.allclose(parts[0], parts[1])
    gradients = {n: array(found[n]) for n in shares}
    disturbed = disturbed_loss(seen, {n: g.shape for n, g in gradients.items()})
    assert set(disturbed.undisturbed()[1]) == set(shares)
    assert disturbed.wrong(gradients) == []


STEPS_OF = {
    "unrolled": ("gru/cell", "stacked/stacked_rnn_cells/upper"),
    "custom_cell": ("rnn/cell", "rnn/cell/read"),
    "stacked_cells": ("rnn/stacked_rnn_cells/lower",),
}


@each(STEPS_OF)
def test_a_cell_that_can_be_seen_is_counted_once_per_step(name):
    """Calls that a loop makes only to learn shapes are no steps."""
    found = look(name).gradients
    for cell in STEPS_OF[name]:
        rows = [row.name for row in found.summary() if row.name.startswith(f"{cell}@")]
        numbers = {int(re.match(r"@(\d+)", row[len(cell) :])[1]) for row in rows}
        hidden = f"{cell}" in found.missing
        assert numbers == (set() if hidden else {1, 2, 3, 4})
    assert name != "unrolled" or not hidden


def test_a_wrong_gradient_is_measured():
    """The twin can fail: one number of one gradient off by a thousandth is named."""
    seen = look("siamese")
    gradients = {n: array(g) for n, g in seen.gradients.items()}
    gradients["shared@2"] = gradients["shared@2"].copy()
    gradients["shared@2"][1, 2] += 1e-3 * np.linalg.norm(gradients["shared@2"])
    disturbed = disturbed_loss(seen, {n: g.shape for n, g in gradients.items()})
    [fault] = disturbed.wrong(gradients)
    assert fault.startswith("shared@2: ")
