"""TensorFlow, JAX and torch give the same names, numbers, reasons and errors.

The weights are the same because they are drawn from their addresses; what TensorFlow
found in float64 is in `reference.json`.
"""

import json

import keras
import numpy as np
import pytest

import gradwatch as gw

from .addresses import drawn
from .cases import each
from .errors import MISTAKES, X, broken, message
from .frameworks import array, double_precision, quick_compilation
from .looks import EVERYTHING, prepared
from .reference import FILE, KINDS, apart, digest, load, record

REFERENCE = load()


@pytest.fixture(autouse=True)
def quick():
    with quick_compilation():
        yield


def outside_loops(names, expected):
    """Without the cells of loops, which only torch runs step by step in Python."""
    loops = [
        n for n, (cause, _) in expected["missing"].items() if cause == "inside_loop"
    ]
    loops = [name.removesuffix(":input") for name in loops]

    def inside(name):
        return any(
            name == loop or name.startswith((f"{loop}@", f"{loop}:", f"{loop}["))
            for loop in loops
        )

    return [name for name in names if not inside(name)]


def test_the_reference_knows_every_kind_and_every_mistake():
    """A new kind of model, or a new mistake, needs its line in the file."""
    assert list(REFERENCE["kinds"]) == KINDS
    assert list(REFERENCE["errors"]) == list(MISTAKES)
    assert len(REFERENCE["mobilenet"]) == 158 + 1
    assert FILE.stat().st_size < 500_000


@each(KINDS)
def test_names_numbers_and_reasons_are_the_same_on_every_backend(name):
    """Names in the same order, numbers to seven digits, reasons word for word.

    Seven, because on TensorFlow some of Keras's constants (1/√d in attention, the
    factor of a regulariser) are float32 even when all tensors are float64.
    """
    expected = REFERENCE["kinds"][name]
    with double_precision():
        found = record(name)
    names = outside_loops(found["gradients"], expected)
    assert names == outside_loops(expected["gradients"], expected)
    assert found["value"] == pytest.approx(expected["value"], rel=1e-7)
    outside = {n: found["gradients"][n] for n in names}
    assert apart(outside, expected["gradients"], 1e-7) == []
    reasons = outside_loops(found["missing"], expected)
    assert {n: found["missing"][n] for n in reasons} == {
        n: expected["missing"][n] for n in outside_loops(expected["missing"], expected)
    }


SINGLE = ["mlp", "siamese", "lstm_states", "masked", "tied_embedding", "towers"]


@pytest.mark.parametrize("name", SINGLE)
def test_single_precision_agrees_too(name):
    """What people use every day: the digests to about five digits."""
    expected = REFERENCE["kinds"][name]["gradients"]
    model, x, y = prepared(name)
    gradients = gw.gradients(model, x, y, wrt=EVERYTHING)
    found = {n: digest(n, g) for n, g in gradients.items() if n in expected}
    assert len(found) >= len(expected) - 2
    assert apart(found, expected, 2e-5) == []


@pytest.mark.parametrize("name", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_near_the_gradients_of_full_precision(name):
    """The same model in float32; the loss scale is not in the numbers."""
    model, x, y = prepared(name)
    config = json.dumps(model.get_config()).replace(name, "float32")
    full = keras.Model.from_config(json.loads(config))
    full.set_weights(model.get_weights())
    half = gw.gradients(model, x, y)
    exact = gw.gradients(full, x, y, loss=model.loss)
    assert list(half) == list(exact)
    for weight, gradient in exact.items():
        difference = np.linalg.norm(array(half[weight]) - array(gradient))
        assert 0 < difference < 0.03 * np.linalg.norm(array(gradient))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_with_the_same_words_on_every_backend(name):
    """Class and message, word for word."""
    assert message(name) == REFERENCE["errors"][name]


def test_an_error_of_the_model_itself_names_the_layer():
    """The original error, with the address in a note, on every backend."""
    with pytest.raises(RuntimeError, match="The layer is broken") as caught:
        gw.gradients(broken(), X, target=gw.mean_output(), wrt=gw.inputs())
    assert any("'inner/bad' (Raises)" in note for note in caught.value.__notes__)


def test_a_digest_sees_a_permutation():
    """The comparison can fail: order, sign and size of the numbers matter."""
    gradient = drawn("some", (3, 4))
    for changed in (gradient[::-1], -gradient, 1.001 * gradient, gradient[:, ::-1]):
        found = {"some": digest("some", changed)}
        expected = {"some": digest("some", gradient)}
        assert apart(found, expected, 1e-5) == ["some"]
