"""What is asked beside a gradient, and how, does not change it; nor the model."""

import numpy as np
import pytest

import gradwatch as gw

from .cases import CASES, each, named
from .frameworks import BACKEND, array, double_precision, quick_compilation, tensors
from .looks import look, look_at_waves, looked, prepared
from .twins import waves

HALF = ["mixed_float16", "mixed_bfloat16"]


@pytest.fixture(autouse=True)
def quick():
    with quick_compilation():
        yield


def differing(one, two, tolerance=0.0):
    """The names whose gradients are not the same, by default bit for bit."""
    close = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
    return [n for n in one if not np.allclose(array(one[n]), array(two[n]), **close)]


def told(gradients):
    """All that a result says beside its numbers: names, depths, reasons."""
    rows = [(row.name, row.shape, row.dtype) for row in gradients.summary()]
    reasons = {name: str(reason) for name, reason in gradients.missing.items()}
    return list(gradients), rows, reasons, list(gradients.outputs)


@each(named("half", "large"))
def test_a_look_leaves_no_trace_and_the_second_one_agrees(name):
    """On TensorFlow the first look is not compiled; it says the same as the second."""
    for seen in (look(name), look_at_waves(name)):
        assert seen.trace == ""
        assert told(seen.gradients) == told(seen.again)
        assert differing(seen.gradients, seen.again, 1e-11) == []
        assert np.allclose(array(seen.gradients.value), array(seen.again.value))
        assert differing(seen.gradients.outputs, seen.again.outputs, 1e-11) == []


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("name", named("half", "unbuilt", "large")[:4] + HALF)
def test_a_look_of_a_chosen_kind_is_repeated_exactly(name, compiled):
    """In the precision of every day."""
    model, x, y = prepared(name)
    seen = looked(model, x, y, compiled=compiled)
    assert seen.trace == ""
    assert differing(seen.gradients, seen.again) == []


ALONE = {"used_twice": "trunk", "attention": "norm_1", "lstm_states": "lstm"}


@pytest.mark.parametrize("name", ALONE)
def test_one_layer_asked_alone_has_the_gradient_it_has_among_all(name):
    """A tap is an identity: the others do not see it."""
    with double_precision():
        seen = look_at_waves(name)
        wrt = gw.activations(ALONE[name])
        alone = gw.gradients(seen.model, seen.x, target=waves, wrt=wrt)
    assert len(alone) > 0
    for part, gradient in alone.items():
        assert np.allclose(array(gradient), array(seen.gradients[part]), atol=1e-12)


TAPED = [n for n in named("half", "large") if n not in ("rematerialised", "bert")]


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has no tape; an error says so.")
@each(TAPED)
def test_a_tape_gives_the_same_names_and_numbers(name):
    """`Tape` around the model's own call, in inference mode."""
    with double_precision():
        seen = look_at_waves(name)
        model, x = seen.model, tensors(seen.x)
        mode = {"training": False} if model._call_has_training_arg else {}
        wrt = [gw.weights(), gw.activations()]
        if "stateful" in CASES[name].tags:
            pytest.skip("What runs in a tape runs for real, and moves the state.")
        with gw.Tape(model, wrt=wrt) as tape:
            target = waves(model(x, **mode))
        found = tape.gradients(target)
    shared = [n for n in found if n in seen.gradients]
    assert len(shared) >= 4
    apart = [
        n
        for n in shared
        if not np.allclose(array(found[n]), array(seen.gradients[n]), atol=1e-9)
    ]
    assert apart == []
    kinds = {row.name: row.kind for row in seen.gradients.summary()}
    asked = [n for n in seen.gradients if kinds[n] != "input" and ":input" not in n]
    assert [n for n in asked if n not in found] == []
