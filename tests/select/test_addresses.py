"""Every layer and weight of a model has one address of its own."""

import re

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers, ops

import gradwatch as gw
from gradwatch.select import resolve, walk

from .models import (
    WIDTH,
    Bag,
    Namesakes,
    SharedTowers,
    Tied,
    TwoOfAName,
    chain,
    dense,
    towers,
)

X = np.ones((2, WIDTH), "float32")


def built(model):
    model(X)
    return model


def test_an_address_is_the_path_of_names_below_the_model():
    """Names are joined by `/`; the model's own name and the inputs are left out."""
    assert list(gw.layers(towers())) == [
        "left",
        "left/conv",
        "left/out",
        "right",
        "right/conv",
        "right/out",
        "add",
        "head",
    ]


def test_a_weight_is_its_layer_and_its_own_name():
    """Two towers with equal layer names have weights with different addresses."""
    weights = gw.layers(towers()).weights
    assert weights[:2] == ["left/conv/kernel", "left/conv/bias"]
    assert weights[-2:] == ["head/kernel", "head/bias"]
    assert len(set(weights)) == len(weights) == 10


def test_the_second_sibling_of_a_name_is_numbered():
    """Three layers called `a` are `a`, `a#2` and `a#3`, in order of creation."""
    model = built(Bag(["a", "a", "a"]))
    assert list(gw.layers(model)) == ["a", "a#2", "a#3"]
    tree = walk(model)
    assert [tree.layers[a].layer for a in tree.layers] == model.parts


@pytest.mark.parametrize(
    ("names", "addresses"),
    [
        (["a", "a", "a#2"], ["a", "a#3", "a#2"]),
        (["a#2", "a", "a"], ["a#2", "a", "a#3"]),
        (["a#2", "a#2"], ["a#2", "a#2#2"]),
    ],
)
def test_a_name_that_looks_like_a_number_is_kept(names, addresses):
    """A layer really called `a#2` keeps its name; the second `a` takes the next."""
    assert list(gw.layers(Bag(names))) == addresses


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["a", "b", "a#2", "a#2#2", "a@2", "a[1]"]), max_size=6))
def test_no_layer_is_ever_lost(names):
    """Whatever the names, each layer has one address, and no two share one."""
    model = Bag(names, make=lambda name: layers.Identity(name=name))
    tree = walk(model)
    assert [node.layer for node in tree.layers.values()] == model.parts
    for node, name in zip(tree.layers.values(), names, strict=True):
        assert node.address == name or node.address.startswith(name + "#")
        (tap,) = resolve(gw.activations(node.layer), tree).taps
        assert tap.address == node.address


def test_two_weights_of_one_name_in_one_layer_are_numbered():
    """Keras lets a layer add two weights called `k`, and one called `k#2`."""
    model = chain(TwoOfAName(name="t"))
    layer = model.get_layer("t")
    weights = walk(model).weights
    assert list(weights) == ["t/k", "t/k#3", "t/k#2"]
    variables = [node.variable for node in weights.values()]
    assert all(
        a is b
        for a, b in zip(variables, [layer.one, layer.two, layer.three], strict=True)
    )


def test_a_weight_of_the_model_itself_has_no_layer_in_front():
    """`add_weight` on the model gives an address of one part."""
    layers_of = gw.layers(built(Tied()))
    assert layers_of.weights == ["scale", "encoder/kernel", "decoder/shift"]
    assert "Weights of the model itself: scale." in str(layers_of)
    assert f"2 layers, {9 + 3 + 1} parameters." in str(layers_of)


def test_a_layer_shared_by_two_towers_is_listed_once():
    """It stands where it is first met; below the other tower it is not repeated."""
    model = built(SharedTowers())
    assert list(gw.layers(model)) == [
        "left",
        "left/own",
        "left/block",
        "left/block/c",
        "left/block/d",
        "right",
        "right/own",
    ]
    tree = walk(model)
    assert tree.aliases["right/block"] == "left/block"
    assert tree.aliases["right/block/d"] == "left/block/d"
    assert tree.weight_aliases["right/block/d/bias"] == "left/block/d/bias"


def test_a_tied_weight_is_listed_once():
    """The first owner names it; the other owner's name is an alias."""
    tree = walk(built(Tied()))
    assert "decoder/kernel" not in tree.weights
    assert tree.weight_aliases["decoder/kernel"] == "encoder/kernel"


def test_nesting_may_be_deep():
    """Six models in one another give an address of seven parts."""
    model = dense("leaf")
    for depth in range(6):
        model = chain(model, name=f"level{depth}")
    assert list(gw.layers(model))[-1] == "level4/level3/level2/level1/level0/leaf"


def test_layers_in_dicts_and_lists_are_found():
    """Layers that a subclassed model keeps in containers have plain addresses."""

    class Containers(keras.Model):
        def __init__(self):
            super().__init__(name="containers")
            self.parts = {"x": dense("a"), "y": [dense("b"), (dense("c"),)]}

        def call(self, x):
            one, (two, (three,)) = self.parts["x"], self.parts["y"]
            return three(two(one(x)))

    assert list(gw.layers(Containers())) == ["a", "b", "c"]


def test_plain_operations_of_a_functional_graph_have_addresses():
    """`keras.ops` nodes between layers stand in the list like layers do."""
    inputs = keras.Input((WIDTH,))
    hidden = ops.tanh(dense("a")(inputs))
    model = keras.Model(inputs, dense("b")(ops.add(hidden, hidden)))
    kinds = {info.address: info.kind for info in gw.layers(model).infos}
    # Keras may number its nodes: a layer can have used the same operation before.
    assert list(kinds) == [node.name for node in model.operations[1:]]
    assert list(kinds.values()) == ["Dense", "Tanh", "Add", "Dense"]


WEIRD = [
    "a[1]",
    "x#2",
    "conv@2",
    "ünï",
    "<img src=x onerror=alert(1)>",
    "with.dot",
    "with space",
    "st*r",
    "wh?t",
    "a:input",
    "$\\frac{$",
    "inputs",
    "'\"",
    "-1",
    "0",
    "a\nb",
]


@pytest.mark.parametrize("name", WEIRD)
@pytest.mark.parametrize("outer", [False, True], ids=["top", "nested"])
def test_a_layer_may_be_called_anything(name, outer):
    """The whole name finds the layer and its weights, at the top and nested."""
    model = chain(layers.Identity(name="first"), layers.Identity(name=name))
    target = model.get_layer(name)
    if outer:
        model = chain(chain(model, name="mid"), name="top")
    prefix = "mid/chain/" if outer else ""
    assert gw.layers(model)[-1] == prefix + name
    for pattern in (name, prefix + name, target):
        (tap,) = resolve(gw.activations(pattern), walk(model)).taps
        assert tap.address == prefix + name
        assert (tap.call, tap.path) == (0, "")


def test_the_list_of_addresses_is_a_sequence():
    """It has a length, positions, slices and membership, like any sequence."""
    found = gw.layers(towers())
    assert len(found) == 8
    assert (found[0], found[-1]) == ("left", "head")
    assert found[1:3] == ["left/conv", "left/out"]
    assert "right/out" in found
    assert "out" not in found
    assert found.index("add") == 6


def test_the_list_of_addresses_prints_as_a_table():
    """One line per layer; the numbers in the weights add up to the total below."""
    model = towers()
    model.get_layer("right").trainable = False
    text = str(gw.layers(model))
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    counts = {
        address: int(lines[address].replace(",", "").split()[-2])
        for address in ("left/conv", "left/out", "right/conv", "right/out", "head")
    }
    assert counts["left/conv"] == 3 * 3 + 3
    assert counts["head"] == 3 * 2 + 2
    assert f"8 layers, {sum(counts.values())} parameters." in text
    assert sum(counts.values()) == model.count_params()
    assert lines["right/out"].endswith("frozen")
    assert lines["left/out"].endswith("yes")


def test_the_addresses_of_a_layer_are_those_below_it():
    """A layer may stand in the model's place: a bare Dense has only its weights."""
    layer = dense("alone")
    layer.build((None, WIDTH))
    assert list(gw.layers(layer)) == []
    assert gw.layers(layer).weights == ["kernel", "bias"]


@pytest.mark.parametrize("wrong", [3, "model.keras", None, keras.Model, X])
def test_only_models_have_addresses(wrong):
    """Anything that is no Keras model is refused, in words."""
    with pytest.raises(gw.GradwatchError, match=r"`model` must be a Keras 3 model"):
        gw.layers(wrong)


def test_addresses_do_not_depend_on_names_that_keras_gives():
    """The same model made twice, with Keras counting on, has the same addresses."""
    first, second = towers(), towers()
    assert list(gw.layers(first)) == list(gw.layers(second))
    assert gw.layers(first).weights == gw.layers(second).weights


def test_a_weight_and_a_layer_may_share_a_name():
    """Both keep their address; the result tells the layer's output apart."""
    model = built(Namesakes())
    assert gw.layers(model).weights == ["a", "a/kernel", "a/bias"]
    found = gw.gradients(
        model, X, target=gw.mean_output(), wrt=[gw.weights(), gw.activations()]
    )
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    assert shapes == {
        "a": (WIDTH,),
        "a/kernel": (WIDTH, WIDTH),
        "a/bias": (WIDTH,),
        "a:output": (2, WIDTH),
    }


def test_the_readme_promise_about_paths_holds():
    """Where Keras's `variable.path` repeats itself, addresses do not."""
    model = built(Bag(["a", "a"]))
    paths = [variable.path for variable in model.weights]
    assert len(set(paths)) < len(paths)
    assert len(set(gw.layers(model).weights)) == len(paths)
    assert not any(re.search(r"bag", name) for name in gw.layers(model).weights)
