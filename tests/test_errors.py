"""Errors name an argument as the caller knows it."""

import keras
import pytest

from gradwatch import AddressError
from gradwatch._errors import arg, listing, renamed
from gradwatch.select import resolve, walk, weights


def test_an_argument_has_its_own_name_unless_it_is_renamed():
    """Also after an error."""
    with pytest.raises(RuntimeError, match="inside"), renamed(wrt="layers"):
        assert (arg("wrt"), arg("layer")) == ("`layers`", "`layer`")
        raise RuntimeError("inside")
    assert arg("wrt") == "`wrt`"
    assert listing() == "`gradwatch.layers(model)`"


def test_the_outer_name_is_the_one_of_the_caller():
    """What an inner context says goes through the outer one, and hides its own."""
    with renamed(layer="--layer", wrt="--wrt", index="--target"):
        with renamed(activations="layer", wrt="layer", index="neuron"):
            inner = [arg(name) for name in ("activations", "wrt", "index", "layer")]
        assert arg("wrt") == "`--wrt`"
    assert inner == ["`--layer`", "`--layer`", "`neuron`", "`--layer`"]


def test_what_was_received_is_shown_as_it_is():
    """A value that looks like the name of an argument is not renamed."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    rule = "^`layers` must name at least one .* Received: '`weights`', which"
    names = {"wrt": "layers", "weights": "layers"}
    with pytest.raises(AddressError, match=rule), renamed(**names):
        resolve(weights("`weights`"), walk(model))
