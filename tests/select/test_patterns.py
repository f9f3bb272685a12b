"""A selector finds what a person means by an address, a glob, a class, an object…"""

import re

import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from keras import layers

import gradwatch as gw
from gradwatch.select import matching, resolve, walk

from .models import WIDTH, Namesakes, SharedTowers, Tied, chain, dense, towers

X = np.ones((2, WIDTH), "float32")

EVERY_LAYER = [
    "left",
    "left/conv",
    "left/out",
    "right",
    "right/conv",
    "right/out",
    "add",
    "head",
]


@pytest.fixture(scope="module")
def tree():
    return walk(towers())


def layers_of(selector, tree):
    return [tap.address for tap in resolve(selector, tree).taps]


def weights_of(selector, tree):
    return list(resolve(selector, tree).weights)


def both(layer):
    return [f"{layer}/kernel", f"{layer}/bias"]


def of_layers(*addresses):
    return [name for address in addresses for name in both(address)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("left/conv", ["left/conv"]),
        ("head", ["head"]),
        ("left", ["left"]),
        ("left/*", ["left/conv", "left/out"]),
        ("*/conv", ["left/conv", "right/conv"]),
        ("**/conv", ["left/conv", "right/conv"]),
        ("conv*", ["left/conv", "right/conv"]),
        ("c?nv", ["left/conv", "right/conv"]),
        ("?ight", ["right"]),
        ("l*", ["left"]),
        ("left/**", ["left/conv", "left/out"]),
        ("**", EVERY_LAYER),
        ("*", EVERY_LAYER),
        (re.compile("conv|head"), ["left/conv", "right/conv", "head"]),
        (re.compile("^left"), ["left", "left/conv", "left/out"]),
        (re.compile("LEFT/C", re.IGNORECASE), ["left/conv"]),
        (0, ["left"]),
        (-1, ["head"]),
        (np.int64(1), ["left/conv"]),
        (layers.Add, ["add"]),
        (layers.Dense, ["left/conv", "left/out", "right/conv", "right/out", "head"]),
        (keras.Model, ["left", "right"]),
        (["head", "left/conv"], ["left/conv", "head"]),
        (("head", 0, layers.Add), ["left", "add", "head"]),
        ([["head"], ["head"]], ["head"]),
        (None, EVERY_LAYER),
    ],
    ids=repr,
)
def test_a_pattern_finds_layers(pattern, expected, tree):
    """Addresses, globs, expressions, positions, classes and lists of these."""
    assert sorted(layers_of(gw.activations(pattern), tree)) == sorted(expected)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("head/bias", ["head/bias"]),
        ("head", both("head")),
        ("left", of_layers("left/conv", "left/out")),
        ("left/*", of_layers("left/conv", "left/out")),
        ("left/conv/*", both("left/conv")),
        ("**/conv", of_layers("left/conv", "right/conv")),
        ("conv/bias", None),
        ("**/conv/bias", ["left/conv/bias", "right/conv/bias"]),
        ("conv/b*", ["left/conv/bias", "right/conv/bias"]),
        ("head*", both("head")),
        (re.compile("out/k"), ["left/out/kernel", "right/out/kernel"]),
        (0, ["left/conv/kernel"]),
        (-1, ["head/bias"]),
        (np.int32(2), ["left/out/kernel"]),
        (["head/bias", "left"], [*of_layers("left/conv", "left/out"), "head/bias"]),
    ],
    ids=repr,
)
def test_a_pattern_finds_weights(pattern, expected, tree):
    """A layer stands for every weight below it; the order is the model's."""
    if expected is None:
        with pytest.raises(gw.AddressError, match="`wrt` must name one address"):
            resolve(gw.weights(pattern), tree)
        return
    assert weights_of(gw.weights(pattern), tree) == expected


def test_layer_objects_and_variables_are_patterns():
    """What the user holds in hand needs no name: a layer, a submodel, a variable."""
    model = towers()
    tree = walk(model)
    right = model.get_layer("right")
    conv = right.get_layer("conv")
    assert weights_of(gw.weights(right), tree) == of_layers("right/conv", "right/out")
    assert weights_of(gw.weights(conv), tree) == both("right/conv")
    assert weights_of(gw.weights(conv.bias), tree) == ["right/conv/bias"]
    assert weights_of(gw.weights(model.trainable_variables), tree) == list(tree.weights)
    found = layers_of(gw.activations([conv, right]), tree)
    assert sorted(found) == ["right", "right/conv"]


def test_without_a_pattern_every_trainable_weight_is_meant():
    """Frozen ones are left out, but kept apart so that the result can say so."""
    model = towers()
    model.get_layer("right").trainable = False
    chosen = resolve(None, walk(model))
    right = of_layers("right/conv", "right/out")
    assert not set(chosen.weights) & set(right)
    assert list(chosen.frozen) == right
    asked = resolve([gw.weights(), gw.weights("right/conv")], walk(model))
    assert set(both("right/conv")) <= set(asked.weights)
    assert list(asked.frozen) == both("right/out")


def test_moving_averages_are_given_only_by_their_full_name():
    """A layer or a glob stands for what learns, not for statistics."""
    model = chain(layers.BatchNormalization(name="norm"))
    tree = walk(model)
    learn = ["norm/gamma", "norm/beta"]
    for pattern in ("norm", "norm/*", "**", layers.BatchNormalization, None):
        assert weights_of(gw.weights(pattern), tree) == learn
    mean = "norm/moving_mean"
    assert weights_of(gw.weights(mean), tree) == [mean]
    assert weights_of(gw.weights("moving_mean"), tree) == [mean]


def test_every_path_to_a_shared_layer_finds_it():
    """An alias, a part of one, a glob and an expression mean the one layer there is."""
    tree = walk(SharedTowers())
    block = ["left/block/c", "left/block/d"]
    for pattern in ("right/block/*", re.compile("^right/block/"), "left/block/*"):
        assert layers_of(gw.activations(pattern), tree) == block
    assert layers_of(gw.activations("right/block/d"), tree) == ["left/block/d"]
    assert weights_of(gw.weights("right/block/d/bias"), tree) == ["left/block/d/bias"]
    assert weights_of(gw.weights("right/block"), tree) == of_layers(*block)
    below = of_layers("left/block/c", "left/block/d", "right/own")
    for pattern in ("right", "right/*", "right/**", re.compile("^right/")):
        assert sorted(weights_of(gw.weights(pattern), tree)) == sorted(below)


def test_a_call_of_an_alias_is_a_call_of_the_layer():
    """`right/block/c@2` is the second call of the layer whose home is on the left."""
    (tap,) = resolve(gw.activations("right/block/c@2"), walk(SharedTowers())).taps
    assert (tap.address, tap.call) == ("left/block/c", 2)


def test_a_tied_weight_is_found_by_both_names():
    """The second owner's name finds the variable under its first name."""
    model = Tied()
    tree = walk(model)
    for pattern in ("decoder/kernel", "encoder/kernel", model.encoder.kernel):
        assert weights_of(gw.weights(pattern), tree) == ["encoder/kernel"]
    both_of = ["encoder/kernel", "decoder/shift"]
    assert weights_of(gw.weights("decoder"), tree) == both_of
    assert weights_of(gw.weights("decoder/*"), tree) == both_of


def test_an_exact_address_wins_over_everything_else_it_could_mean():
    """A weight called like a layer, and a layer called like a glob or a call."""
    model = Namesakes()
    model(X)
    assert weights_of(gw.weights("a"), walk(model)) == ["a"]
    odd = chain(dense("c*"), dense("cat"), dense("c@2"), dense("c[0]"), dense("c"))
    tree = walk(odd)
    for name in ("c*", "c@2", "c[0]", "c"):
        assert layers_of(gw.activations(name), tree) == [name]
        assert weights_of(gw.weights(name), tree) == both(name)
    assert len(layers_of(gw.activations("c?*"), tree)) == 4


def test_a_suffix_names_a_call_and_a_place():
    """`conv@2` is the second call, `conv[1][x]` one tensor of each; 0 is any call."""
    tree = walk(towers())
    for text, call, path in [
        ("head@2", 2, ""),
        ("head[1]", 0, "[1]"),
        ("head@3[1][x]", 3, "[1][x]"),
        ("left/conv@1", 1, ""),
        ("**/conv@2", 2, ""),
    ]:
        for tap in resolve(gw.activations(text), tree).taps:
            assert (tap.call, tap.path) == (call, path)
            assert tap.address.endswith(("head", "conv"))


def test_the_position_of_an_activation_is_checked():
    """`at` is one of two words."""
    assert gw.activations("a", at="input").at == "input"
    with pytest.raises(gw.GradwatchError, match=r"`at` must be one of .*'inside'"):
        gw.activations("a", at="inside")


def test_a_selector_does_not_follow_a_list_that_changes():
    """What was asked is fixed when the selector is made."""
    patterns = ["head"]
    selector = gw.weights(patterns)
    patterns.append("left")
    assert weights_of(selector, walk(towers())) == both("head")


# globs --------------------------------------------------------------------------------


def slow_glob(pattern, text):
    """The rules as recursion: `*` and `?` stop at `/`, `**` does not."""
    if not pattern:
        return not text
    if pattern.startswith("**"):
        return any(slow_glob(pattern[2:], text[i:]) for i in range(len(text) + 1))
    if pattern[0] == "*":
        stop = text.find("/") if "/" in text else len(text)
        return any(slow_glob(pattern[1:], text[i:]) for i in range(stop + 1))
    if not text:
        return False
    fits = text[0] != "/" if pattern[0] == "?" else text[0] == pattern[0]
    return fits and slow_glob(pattern[1:], text[1:])


def slow_matching(pattern, names):
    """A glob may begin at any part of an address."""
    if pattern in names:
        return [pattern]

    def ends(name):
        parts = name.split("/")
        return ["/".join(parts[i:]) for i in range(len(parts))]

    return [name for name in names if any(slow_glob(pattern, e) for e in ends(name))]


names_of = st.lists(
    st.lists(st.sampled_from(["a", "ab", "b", "a.b"]), min_size=1, max_size=3).map(
        "/".join
    ),
    unique=True,
    max_size=5,
)
globs = st.lists(
    st.sampled_from(["a", "b", ".", "/", "*", "**", "?"]), min_size=1, max_size=5
).map("".join)


@settings(max_examples=400)
@given(globs.filter(lambda text: "*" in text or "?" in text), names_of)
@example("*", ["a", "a/b"])
@example("a.b*", ["aab", "a.b"])
@example("**", ["a/b/c"])
def test_a_glob_matches_as_the_slow_rules_do(pattern, names):
    """The expression made of a glob agrees with a matcher written as recursion."""
    assert matching(pattern, names) == slow_matching(pattern, names)


# what is refused ----------------------------------------------------------------------


def message(selector, tree):
    with pytest.raises(gw.GradwatchError, match=r"`(wrt|weights|activations)`") as info:
        resolve(selector(), tree)
    text = str(info.value)
    assert "Received: " in text
    assert text.endswith(".")
    assert " at 0x" not in text
    assert "keras.src" not in text
    return text


@pytest.mark.parametrize(
    ("selector", "close"),
    [
        (lambda: gw.weights("heed"), "'head'"),
        (lambda: gw.activations("heed"), "'head'"),
        (lambda: gw.activations("left/cnov"), "'left/conv'"),
        (lambda: gw.activations("towers/head"), "'head'"),
        (lambda: gw.activations("Head"), "'head'"),
        (lambda: gw.activations("/head"), "'head'"),
        (lambda: gw.activations("heads*"), "'head'"),
        (lambda: gw.weights("right/conv/kernle"), "'right/conv/kernel'"),
        (lambda: gw.weights("left/conv@1/kernel"), "'left/conv/kernel'"),
    ],
)
def test_an_unknown_address_shows_the_closest(selector, close, tree):
    """The error names what was asked, what is closest, and how to list everything."""
    text = message(selector, tree)
    assert text.startswith("`wrt` must name at least one ")
    assert close in text.partition("Closest: ")[2]
    assert "`gradwatch.layers(model)` lists them all" in text


@pytest.mark.parametrize("pattern", ["zzzz", "", "zz*", re.compile("zz")], ids=repr)
def test_an_address_like_no_other_shows_some(pattern, tree):
    """When nothing is close, the first addresses are shown instead."""
    text = message(lambda: gw.activations(pattern), tree)
    assert f"Received: {pattern!r}" in text
    assert "none of the 8 layers of 'towers'" in text
    assert "'left', 'left/conv'" in text
    text = message(lambda: gw.weights(pattern), tree)
    assert "none of the 10 weights of 'towers'" in text
    assert "'left/conv/kernel'" in text


@pytest.mark.parametrize("selector", [gw.weights, gw.activations])
def test_an_ambiguous_short_name_shows_the_candidates(selector, tree):
    """`conv` is the last part of two addresses: both are named, and a glob for all."""
    text = message(lambda: selector("conv"), tree)
    assert "'left/conv', 'right/conv'" in text
    assert "'**/conv'" in text


def test_many_candidates_are_counted_not_listed(tree):
    """`kernel` fits every layer; the list is kept short."""
    model = chain(*[dense(f"d{i}") for i in range(12)])
    text = message(lambda: gw.weights("kernel"), walk(model))
    assert "'d0/kernel'" in text
    assert "and 4 more" in text
    assert "'d11/kernel'" not in text


def test_a_weight_asked_as_an_activation_is_explained(tree):
    """The commonest mix-up is recognised, and the right selector written out."""
    text = message(lambda: gw.activations("head/kernel"), tree)
    assert "`gradwatch.weights('head/kernel')`" in text


@pytest.mark.parametrize(
    "pattern", ["door", "left/door", layers.InputLayer], ids=["name", "nested", "class"]
)
@pytest.mark.parametrize("selector", [gw.weights, gw.activations])
def test_an_input_is_not_a_layer_that_computes(selector, pattern, tree):
    """By name or class, the error points to `inputs()`."""
    assert "`gradwatch.inputs()`" in message(lambda: selector(pattern), tree)


def test_an_input_layer_object_is_told_from_a_foreign_layer(tree):
    """`model.layers[0]` of a functional model is its input."""
    model = towers()
    assert isinstance(model.layers[0], layers.InputLayer)
    text = message(lambda: gw.activations(model.layers[0]), walk(model))
    assert "`gradwatch.inputs()`" in text
    assert "another model" not in text


def test_a_layer_of_another_model_is_refused(tree):
    """The error names the layer, its class, and a layer of that name in this model."""
    other = towers()
    for selector in (gw.weights, gw.activations):
        text = message(lambda make=selector: make(other.get_layer("head")), tree)
        assert "'head' (Dense), which belongs to another model" in text
        assert "This model has a layer of that name: 'head'" in text
        text = message(lambda make=selector: make(dense("zz")), tree)
        assert "'zz' (Dense), which belongs to another model" in text
        assert "a layer of that name" not in text


def test_a_variable_of_another_model_is_refused(tree):
    """A variable in hand must belong to this model, too."""
    other = towers()
    text = message(lambda: gw.weights(other.trainable_variables[0]), tree)
    assert "the variable 'left/conv/kernel'" in text


def test_the_model_itself_is_not_one_of_its_layers():
    """Asked for the activation of the whole model, the error says where that is."""
    model = towers()
    text = message(lambda: gw.activations(model), walk(model))
    assert "Received: the model 'towers' itself" in text


@pytest.mark.parametrize(
    ("selector", "low", "high", "noun"),
    [
        (lambda i: gw.weights(i), -10, 9, "10 weights"),
        (lambda i: gw.activations(i), -8, 7, "8 layers"),
    ],
    ids=["weights", "activations"],
)
def test_an_index_out_of_range_shows_the_range(selector, low, high, noun, tree):
    """The first index past either end is refused; the last one inside is not."""
    for inside in (low, high):
        resolve(selector(inside), tree)
    for outside in (low - 1, high + 1):
        text = message(lambda i=outside: selector(i), tree)
        assert f"an index from {low} to {high}, for the {noun} of the model" in text
        assert f"Received: {outside}." in text


@pytest.mark.parametrize("pattern", [1.0, True, b"head", {"head": 1}])
@pytest.mark.parametrize("selector", [gw.weights, gw.activations])
def test_a_pattern_of_another_type_is_refused(selector, pattern, tree):
    """Floats, truth values, bytes and dicts are no patterns."""
    text = message(lambda: selector(pattern), tree)
    assert text.startswith(f"`{selector.__name__}` must be a")
    assert "a glob, a compiled regular expression" in text
    assert "Received: " in text


def test_a_class_that_is_no_layer_matches_nothing(tree):
    """`int` is a class, but none of a layer."""
    assert "the class int" in message(lambda: gw.weights(int), tree)


@pytest.mark.parametrize("selector", [gw.weights, gw.activations, gw.inputs])
def test_an_array_is_no_pattern(selector):
    """It is shown by type and shape, on every backend alike, never by its values."""
    tensor = keras.ops.ones((2, 3))
    with pytest.raises(
        gw.GradwatchError, match=rf"`{selector.__name__}` must be.* of shape \(2, 3\)"
    ):
        selector(tensor)


@pytest.mark.parametrize("selector", [gw.weights, gw.activations, gw.inputs])
def test_an_empty_list_of_patterns_is_refused(selector):
    """Nothing is never what is meant; all is said by leaving the pattern out."""
    name = selector.__name__
    for empty in ([], ()):
        with pytest.raises(
            gw.GradwatchError, match=rf"`{name}` must hold at least one pattern"
        ):
            selector(empty)


def test_a_class_that_the_model_lacks_shows_those_it_has(tree):
    """The classes that are there are named."""
    text = message(lambda: gw.activations(layers.Conv2D), tree)
    assert "the class Conv2D" in text
    assert "'Add', 'Dense'" in text


def test_weights_of_a_layer_without_any_are_refused(tree):
    """The error offers the layer's output instead."""
    text = message(lambda: gw.weights("add"), tree)
    assert "`gradwatch.activations('add')`" in text


def test_weights_of_a_model_without_any_are_refused():
    """There is nothing to select, so the other selectors are named."""
    model = chain(layers.ReLU(name="r"))
    text = message(lambda: gw.weights(), walk(model))
    assert "'chain', which has none" in text
    assert "`gradwatch.inputs()`" in text


def test_calls_are_counted_from_one(tree):
    """`@0` is refused, and the first call written out."""
    assert "'head@1'" in message(lambda: gw.activations("head@0"), tree)
