"""`wrt=` says whether weights, activations or inputs are meant, and which."""

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import WIDTH, SharedTowers, Tied, chain, dense, towers

X = np.linspace(-1, 1, 2 * WIDTH).reshape(2, WIDTH).astype("float32")


@pytest.fixture(scope="module")
def model():
    return towers()


def ask(model, wrt, x=X, **options):
    return gw.gradients(model, x, target=gw.mean_output(), wrt=wrt, **options)


def test_everything_can_be_asked_at_once(model):
    """Weights, outputs, what goes in, and the inputs come back in one result."""
    found = ask(
        model,
        [
            gw.weights("head"),
            gw.activations("add"),
            gw.activations("add", at="input"),
            gw.inputs(),
        ],
    )
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    assert shapes == {
        "head/kernel": (WIDTH, 2),
        "head/bias": (2,),
        "add": (2, WIDTH),
        "add:input[0]": (2, WIDTH),
        "add:input[1]": (2, WIDTH),
        "inputs": (2, WIDTH),
    }


def test_the_same_thing_asked_twice_comes_once(model):
    """Overlapping selectors do not repeat a name."""
    found = ask(model, [gw.weights("head"), gw.weights("**/bias"), gw.weights(-1)])
    assert list(found) == [
        "left/conv/bias",
        "left/out/bias",
        "right/conv/bias",
        "right/out/bias",
        "head/kernel",
        "head/bias",
    ]


def test_equal_looking_layer_objects_are_told_apart(model):
    """Two layers that print alike are two questions, also in one process."""
    left = model.get_layer("left").get_layer("conv")
    right = model.get_layer("right").get_layer("conv")
    assert repr(left) == repr(right)
    for _ in range(2):
        for layer, address in ((left, "left/conv"), (right, "right/conv")):
            for pattern in (layer, [layer]):
                assert list(ask(model, gw.activations(pattern))) == [address]
                names = [f"{address}/kernel", f"{address}/bias"]
                assert list(ask(model, gw.weights(pattern))) == names


@pytest.mark.parametrize("wrong", [True, 1.0])
def test_an_equal_number_of_another_type_is_still_refused(model, wrong):
    """`True == 1 == 1.0` in Python; a question asked before does not let it in."""
    assert list(ask(model, gw.weights(1))) == ["left/conv/bias"]
    with pytest.raises(gw.GradwatchError, match="`weights` must be"):
        ask(model, gw.weights(wrong))


def test_a_shared_layer_is_named_by_its_home_whatever_was_asked():
    """Aliases find the layer; the result uses its one address, call by call."""
    model = SharedTowers()
    for pattern in ("right/block", "left/block", "block"):
        found = ask(model, gw.activations(pattern))
        assert list(found) == ["left/block@1", "left/block@2"]
        arrays = found.to_numpy()
        np.testing.assert_allclose(
            arrays["left/block@2"], 2 * arrays["left/block@1"], rtol=1e-5, atol=1e-7
        )
    found = ask(model, gw.activations("right/block@2"))
    assert list(found) == ["left/block@2"]


def test_a_tied_weight_gets_the_sum_of_both_uses():
    """One variable read in two places has one gradient, under its first name."""
    model = Tied()
    kernel = keras.ops.convert_to_numpy(model.encoder.kernel).astype("float64")
    found = ask(model, None).to_numpy()
    assert list(found) == ["scale", "encoder/kernel", "decoder/shift"]
    # mean(x K Kᵀ + 1): the gradient of K is (xᵀ G + Gᵀ x) K with G = 1 / size.
    spread = X.astype("float64").T @ np.full((2, WIDTH), 1 / (2 * WIDTH))
    np.testing.assert_allclose(
        found["encoder/kernel"], (spread + spread.T) @ kernel, rtol=1e-5, atol=1e-6
    )


# inputs -------------------------------------------------------------------------------


def two_inputs():
    left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
    joined = layers.Concatenate(name="join")([left, right])
    return keras.Model([left, right], dense("head", 2)(joined), name="duo")


BOTH = [np.ones((2, 3), "float32"), np.ones((2, 2), "float32")]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (gw.inputs(), ["inputs[left]", "inputs[right]"]),
        (gw.inputs("right"), ["inputs[right]"]),
        (gw.inputs("inputs[left]"), ["inputs[left]"]),
        (gw.inputs(1), ["inputs[right]"]),
        (gw.inputs(-2), ["inputs[left]"]),
        (gw.inputs("r*"), ["inputs[right]"]),
        (gw.inputs(["right", 0]), ["inputs[left]", "inputs[right]"]),
    ],
    ids=str,
)
def test_inputs_are_found_by_name_position_or_pattern(selector, names):
    """A list of arrays takes the names of the model's inputs."""
    assert list(ask(two_inputs(), selector, BOTH)) == names


def test_a_dictionary_of_arrays_is_named_by_its_keys():
    """The same names come out for a dict as for a list."""
    x = dict(zip(("left", "right"), BOTH, strict=True))
    assert list(ask(two_inputs(), gw.inputs(), x)) == ["inputs[left]", "inputs[right]"]


def test_a_single_input_is_called_inputs_and_known_by_its_name():
    """One tensor is `inputs`; the name of the `keras.Input` finds it too."""
    model = chain(dense("a"))
    assert list(ask(model, gw.inputs())) == ["inputs"]
    assert list(ask(model, gw.inputs("door"))) == ["inputs"]
    assert list(ask(model, gw.inputs(0))) == ["inputs"]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: gw.inputs("middle"), r"`wrt` must name an input.*'inputs\[left\]'"),
        (lambda: gw.inputs(2), r"`wrt` must be an index from -2 to 1"),
        (lambda: gw.inputs(0.5), r"`inputs` must be"),
    ],
)
def test_an_unknown_input_is_refused(make, match):
    """The error lists the inputs of the call, not the layers."""
    model = two_inputs()
    with assert_untouched(model), pytest.raises(gw.GradwatchError, match=match):
        ask(model, make(), BOTH)


# what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (lambda m: "head", "'head'"),
        (lambda m: ["head"], "'head'"),
        (lambda m: 3, "3"),
        (lambda m: m.layers[-1], "the layer 'head'"),
        (lambda m: m.trainable_variables, "the variable 'kernel'"),
        (lambda m: keras.ops.ones((2, 3)), r"of shape \(2, 3\)"),
        (lambda m: m.layers[-1].output, r"of shape \(None, 2\)"),
        (lambda m: gw.weights, "`weights` itself"),
        (lambda m: layers.Dense, "Dense"),
    ],
    ids=["name", "names", "int", "layer", "variables", "tensor", "symbol", "fn", "cls"],
)
def test_a_bare_thing_is_not_a_selector(model, wrong, shown):
    """Weights or activations? The error writes both out; nothing is guessed."""
    with (
        assert_untouched(model),
        pytest.raises(gw.GradwatchError, match=rf"`wrt` must say.*{shown}") as info,
    ):
        ask(model, wrong(model))
    text = str(info.value)
    assert "`gradwatch.weights(" in text
    assert "`gradwatch.activations(" in text
    assert " at 0x" not in text
    assert "\n" not in text


def test_a_bare_name_is_written_into_the_way_out(model):
    """The suggestion can be pasted: it has the very name in it."""
    with pytest.raises(gw.GradwatchError, match=r"`gradwatch\.weights\('head'\)`"):
        ask(model, "head")


@pytest.mark.parametrize("wrong", [[], ()])
def test_an_empty_list_is_refused(model, wrong):
    """No selector at all is a mistake; leaving `wrt` out means all weights."""
    with pytest.raises(gw.GradwatchError, match="`wrt` must hold at least one"):
        ask(model, wrong)


@pytest.mark.parametrize(
    "wrong", [{"a": gw.weights()}, {gw.weights()}, [[gw.weights()]]], ids=repr
)
def test_a_nested_structure_of_selectors_is_refused(model, wrong):
    """One selector, or a flat list of them; the error shows how to write it."""
    with pytest.raises(gw.GradwatchError, match=r"`wrt` must be .*flat list"):
        ask(model, wrong)


def test_a_wrong_wrt_is_refused_when_the_inspector_is_made(model):
    """The mistake shows where it was made, not at the first batch."""
    with pytest.raises(gw.GradwatchError, match="`wrt` must say"):
        gw.Inspector(model, wrt="head")


@pytest.mark.parametrize(
    ("selector", "match"),
    [
        (gw.activations("head@2"), r"`wrt` must name a call .*'head@2'.* 1 time "),
        (gw.activations("head[1]"), r"`wrt` must name a tensor .*'head\[1\]'.*'head'"),
        (gw.activations("add[x]"), r"`wrt` must name a tensor .*'add\[x\]'"),
        (gw.activations("heed"), r"`wrt` must name at least one layer.*'head'"),
        (gw.weights("conv"), r"`wrt` must name one address.*'left/conv'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_an_address_that_is_not_there_leaves_no_trace(model, selector, match, compiled):
    """The error is an AddressError, which is a KeyError too; the model is untouched."""
    with assert_untouched(model), pytest.raises(KeyError, match=match) as info:
        ask(model, selector, compiled=compiled)
    assert isinstance(info.value, gw.AddressError)
    assert str(info.value)[0] == "`"
    assert not getattr(info.value, "__notes__", [])
