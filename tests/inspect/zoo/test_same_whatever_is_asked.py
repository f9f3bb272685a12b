"""What is asked beside a gradient, and how, does not change it; nor the model."""

import numpy as np
import pytest

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .cases import CASES, named
from .frameworks import BACKEND, array, double_precision, quick_compilation, tensors
from .looks import EVERYTHING, look_at_waves, prepared
from .twins import waves

KINDS = named("large")
DOUBLE = named("half", "large")


@pytest.fixture(autouse=True)
def quick():
    with quick_compilation():
        yield


@pytest.mark.parametrize("name", KINDS)
def test_a_look_leaves_no_trace(name):
    """Compiled, again from what was kept, and eager; on every kind of model."""
    model, x, y = prepared(name)
    with assert_untouched(model):
        first = gw.gradients(model, x, y, wrt=EVERYTHING)
        again = gw.gradients(model, x, y, wrt=EVERYTHING)
        if BACKEND == "tensorflow":  # elsewhere it is the same path, only slower
            gw.gradients(model, x, y, wrt=EVERYTHING, compiled=False)
    assert list(first) == list(again)
    apart = [n for n in first if not np.array_equal(array(first[n]), array(again[n]))]
    assert apart == []


ALONE = {"used_twice": "trunk", "attention": "norm_1", "lstm_states": "lstm"}


@pytest.mark.parametrize("name", ALONE)
def test_one_layer_asked_alone_has_the_gradient_it_has_among_all(name):
    """A tap is an identity: the others do not see it."""
    with double_precision():
        seen = look_at_waves(name)
        wrt = gw.activations(ALONE[name])
        alone = gw.gradients(seen.model, seen.x, target=waves, wrt=wrt)
    assert len(alone) > 0
    for each in alone:
        assert np.allclose(array(alone[each]), array(seen.gradients[each]), atol=1e-12)


TAPED = [n for n in DOUBLE if n not in ("rematerialised", "bert")]


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has no tape; an error says so.")
@pytest.mark.parametrize("name", TAPED)
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
