"""The zoo is what it says: fresh, small, compiled models of every kind."""

import dataclasses

import keras
import numpy as np
import pytest
from tests.zoo import Case, zoo

import gradwatch as gw
from gradwatch.testing import known

SMALL = [name for name, case in zoo().items() if "large" not in case.tags]
TAGS = {"random", "half", "unbuilt", "stateful", "large"}


def test_every_case_has_a_name_notes_and_known_tags():
    """`zoo()` is a dict by name; nothing is built before it is asked for."""
    cases = zoo()
    assert len(cases) >= 40
    for name, case in cases.items():
        assert isinstance(case, Case)
        assert case.name == name
        assert case.notes.endswith(".")
        assert case.tags <= TAGS
    assert {tag for case in cases.values() for tag in case.tags} == TAGS


def test_a_case_cannot_be_changed():
    """It is shared by everybody who asks for the zoo."""
    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        zoo()["mlp"].name = "other"


@pytest.mark.parametrize("name", ["mlp", "cnn", "stateful_lstm", "unbuilt_subclassed"])
def test_each_build_is_a_fresh_model_with_the_same_data(name):
    """Two builds share no layer and no variable."""
    (one, x, y), (two, again, labels) = (zoo()[name].build() for _ in range(2))
    assert one is not two
    assert not {id(v) for v in one.variables} & {id(v) for v in two.variables}
    assert np.array_equal(x, again)
    assert np.array_equal(y, labels)


@pytest.mark.parametrize("name", SMALL)
def test_a_case_is_small_named_and_ready_to_train(name):
    """Its name is the model's, it is compiled, and its data fits."""
    case = zoo()[name]
    model, x, y = case.build()
    assert model.name == name
    assert model.compiled
    assert ("unbuilt" in case.tags) == (not model.variables)
    assert model.built != ("unbuilt" in case.tags)
    assert sum(int(np.prod(v.shape)) for v in model.variables) < 1000
    sizes = {len(a) for a in keras.tree.flatten([x, y]) if a is not None}
    assert sizes == {3}


def test_known_gradients_are_those_of_the_chain_rule():
    """Weights, activations and inputs, derived by hand, against the library."""
    right = known(seed=4)
    wrt = [gw.weights(), gw.activations(), gw.inputs()]
    found = gw.gradients(right.model, right.x, right.y, wrt=wrt).to_numpy()
    expected = {**right.weights, **right.activations, "inputs": right.inputs}
    assert list(found) == list(expected)
    for name, gradient in expected.items():
        assert np.allclose(found[name], gradient, atol=1e-6)
    value = gw.gradients(right.model, right.x, right.y).value
    assert float(keras.ops.convert_to_numpy(value)) == pytest.approx(right.value, 1e-5)


def test_another_seed_gives_another_known_model():
    """So that a test can tell stale numbers from new ones."""
    one, two = known(seed=1), known(seed=2)
    assert not np.allclose(one.weights["head/kernel"], two.weights["head/kernel"])
