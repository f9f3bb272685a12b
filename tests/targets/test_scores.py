"""Targets read off the outputs: their values and gradients, written down by hand."""

import keras
import numpy as np
import pytest
from keras import ops

import gradwatch as gw

from .models import (
    BATCH,
    BIAS,
    CLASSES,
    KERNEL,
    OUTPUT,
    PIXELS,
    WIDTH,
    X,
    array,
    linear,
    segmentation,
    two_outputs,
)


@pytest.fixture(scope="module")
def model():
    return linear()


@pytest.fixture(scope="module")
def two():
    """One model for all: what was compiled for one output is not used for another."""
    return two_outputs()


def ask(model, target, x=X, **options):
    wrt = [gw.weights(), gw.inputs()]
    return gw.gradients(model, x, target=target, wrt=wrt, **options)


def agrees(found, value, at_output):
    """Checks value and gradients against d(target)/d(output), chained by hand."""
    np.testing.assert_allclose(array(found.value), value, rtol=1e-5)
    arrays = found.to_numpy()
    expected = {
        "head/kernel": X.astype("float64").T @ at_output,
        "head/bias": at_output.sum(axis=0),
        "inputs": at_output @ KERNEL.T.astype("float64"),
    }
    assert list(arrays) == list(expected)
    for name, gradient in expected.items():
        np.testing.assert_allclose(arrays[name], gradient, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("index", [0, 3, CLASSES - 1, -1, -CLASSES, np.int64(2)])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_one_class_for_all_examples(model, index, compiled):
    """The scores of that class are added up over the batch."""
    at_output = np.zeros((BATCH, CLASSES))
    at_output[:, index] = 1
    found = ask(model, gw.class_score(index), compiled=compiled)
    agrees(found, OUTPUT[:, index].sum(), at_output)


PER_EXAMPLE = [0, 4, -2, 0]


@pytest.mark.parametrize(
    "make",
    [list, tuple, np.array, lambda i: np.array(i, "int64"), ops.convert_to_tensor],
    ids=["list", "tuple", "array", "int64", "tensor"],
)
def test_one_class_for_each_example(model, make):
    """Each example's input gets the gradient of that example's own score."""
    at_output = np.zeros((BATCH, CLASSES))
    value = 0.0
    for example, index in enumerate(PER_EXAMPLE):
        at_output[example, index] = 1
        value += OUTPUT[example, index]
    agrees(ask(model, gw.class_score(make(PER_EXAMPLE))), value, at_output)


def test_another_class_needs_no_new_trace(model):
    """The index is data: an inspector that met one class knows them all."""
    inspect = gw.Inspector(model, target=gw.class_score(0), wrt=gw.inputs())
    for index in (0, 1, [1, 2, 3, 4], -1):
        found = inspect(X, target=gw.class_score(index)).to_numpy()["inputs"]
        columns = np.broadcast_to(index, (BATCH,))
        np.testing.assert_allclose(found, KERNEL[:, columns].T, rtol=1e-5, atol=1e-7)
    if keras.backend.backend() != "torch":  # which builds its graph anew each time
        assert inspect.num_traces == 1


def test_the_mean_of_the_output(model):
    """Every number of the output counts alike."""
    at_output = np.full((BATCH, CLASSES), 1 / OUTPUT.size)
    agrees(ask(model, gw.mean_output()), OUTPUT.mean(), at_output)


@pytest.mark.parametrize("index", [2, -2, (2,), [2], np.int64(2), (np.int32(2),)])
def test_one_unit_of_the_output(model, index):
    """A unit by its place, without the batch axis."""
    place = int(np.ravel(index)[0])
    at_output = np.zeros((BATCH, CLASSES))
    at_output[:, place] = 1
    agrees(ask(model, gw.output(index=index)), OUTPUT[:, place].sum(), at_output)


def test_one_pixel_and_class_of_a_segmentation():
    """A place may have several coordinates; only that pixel's input matters."""
    model = segmentation()
    found = gw.gradients(
        model, PIXELS, target=gw.output(index=(1, -1, 2)), wrt=gw.inputs()
    ).to_numpy()["inputs"]
    kernel = array(model.get_layer("px").kernel)[0, 0]
    expected = np.zeros_like(PIXELS)
    expected[:, 1, -1] = kernel[:, 2]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "function",
    [
        lambda out: ops.mean(out[:, 1] ** 2) * BATCH,
        lambda out: out[:, 1] ** 2,
        lambda out: out[:, 1:2] ** 2,
        lambda out: ops.reshape(ops.sum(out[:, 1] ** 2), (1, 1)),
    ],
    ids=["scalar", "per example", "column", "one by one"],
)
def test_a_function_of_the_outputs(model, function):
    """One number per call, or one per example, which are then added up."""
    at_output = np.zeros((BATCH, CLASSES))
    at_output[:, 1] = 2 * OUTPUT[:, 1]
    found = ask(model, function)
    agrees(found, (OUTPUT[:, 1] ** 2).sum(), at_output)
    assert "Gradients of the function <lambda> = " in str(found)


def test_a_function_sees_the_outputs_in_their_structure():
    """A model with a dict of outputs hands the function a dict."""
    model = two_outputs(dict)
    seen = []

    def target(outputs):
        seen.append(sorted(outputs))
        return ops.mean(outputs["c"]) + ops.mean(outputs["r"])

    assert len(ask(model, target)) == 7
    assert seen[0] == ["c", "r"]


@pytest.mark.parametrize(
    ("target", "head"),
    [
        (gw.class_score(1, output="cls"), "cls"),
        (gw.class_score(1, output=0), "cls"),
        (gw.class_score(0, output=-1), "reg"),
        (gw.output("reg"), "reg"),
        (gw.output(1), "reg"),
        (gw.output("cls", index=1), "cls"),
        (gw.mean_output("reg"), "reg"),
        (gw.mean_output(0), "cls"),
    ],
    ids=str,
)
def test_one_output_of_several_is_chosen_by_name_or_position(target, head):
    """Only the head that was chosen has a gradient; the other says why not."""
    found = ask(two_outputs(), target)
    assert {name.split("/")[0] for name in found} - {"inputs"} == {"trunk", head}
    (other,) = {"cls", "reg"} - {head}
    assert set(found.missing) == {f"{other}/kernel", f"{other}/bias"}
    for reason in found.missing.values():
        assert reason.cause == "other_output"
        assert f"{other!r}" in str(reason)


@pytest.mark.parametrize("structure", [list, tuple])
def test_outputs_are_kept_by_name(structure):
    """The result holds the outputs of the same pass, under the names of the heads."""
    model = two_outputs(structure)
    found = ask(model, gw.output("reg"))
    cls, reg = model(X)
    np.testing.assert_allclose(
        array(found.outputs["cls"]), array(cls), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        array(found.outputs["reg"]), array(reg), rtol=1e-5, atol=1e-7
    )
    assert list(ask(two_outputs(dict), gw.output("r")).outputs) == ["c", "r"]


def test_a_single_output_is_known_by_the_name_of_its_layer(model):
    """What works for two outputs works for one."""
    for name in ("head", 0, -1):
        found = ask(model, gw.class_score(1, output=name))
        np.testing.assert_allclose(array(found.value), OUTPUT[:, 1].sum(), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_scores_in_half_precision_are_added_in_full(dtype):
    """The sum over a batch of large half-precision scores does not overflow."""
    model = keras.Sequential(
        [
            keras.Input((WIDTH,)),
            keras.layers.Dense(CLASSES, name="head", dtype=f"mixed_{dtype}"),
        ]
    )
    model.set_weights([np.zeros_like(KERNEL), np.full_like(BIAS, 30_000)])
    for target in (gw.class_score(1), gw.output(index=1), lambda out: out[:, 1]):
        found = gw.gradients(model, X, target=target)
        np.testing.assert_allclose(array(found.value), BATCH * 30_000, rtol=0.01)
    mean = gw.gradients(model, X, target=gw.mean_output())
    np.testing.assert_allclose(array(mean.value), 30_000, rtol=0.01)


def test_targets_print_as_they_are_written():
    """The words in titles and errors are those of the call."""
    assert str(gw.class_score(3)) == "class_score(3)"
    assert str(gw.class_score(3, output="cls")) == "class_score(3, output='cls')"
    assert str(gw.class_score([1, 2])) == "class_score(one per example)"
    assert str(gw.output("reg")) == "output('reg')"
    assert str(gw.output(index=(1, 2))) == "output(index=(1, 2))"
    assert str(gw.mean_output()) == "mean_output()"
    assert str(gw.loss()) == "the loss"
    assert str(gw.loss("mse")) == "the loss mse"


def speller():
    """A model of strings, whose number no layer of TensorFlow knows beforehand."""
    split = keras.layers.TextVectorization(
        vocabulary=["a", "b", "c"], output_sequence_length=4
    )
    words = keras.Input((), dtype="string")
    embedded = keras.layers.Embedding(5, 6, name="embed")(split(words))
    pooled = keras.layers.GlobalAveragePooling1D(name="pool")(embedded)
    return keras.Model(words, keras.layers.Dense(3, name="out")(pooled))


SIZELESS = {
    "class_score": gw.class_score(1),
    "one per example": gw.class_score([1, 2]),
    "output": gw.output(index=1),
    "mean_output": gw.mean_output(),
    "neuron": gw.neuron("pool", 2),
    "function": lambda out: out[:, 1],
}


@pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="strings are TensorFlow's"
)
@pytest.mark.parametrize("target", SIZELESS.values(), ids=SIZELESS)
def test_a_model_of_strings_takes_every_target(target):
    """Compiled or not, from a tensor or an array: the same as of the numbers."""
    import tensorflow as tf

    model = speller()
    texts = ["a b", "c c b"]
    numbers = keras.Model(model.get_layer("embed").input, model.output)
    ids = np.array([[2, 3, 0, 0], [4, 4, 3, 0]])
    wrt = [gw.weights(), gw.activations("embed")]
    expected = gw.gradients(numbers, ids, target=target, wrt=wrt, compiled=False)
    for x in (tf.constant(texts), np.array(texts)):
        for compiled in (True, False):
            found = gw.gradients(model, x, target=target, wrt=wrt, compiled=compiled)
            for name, gradient in expected.items():
                np.testing.assert_allclose(found[name], gradient, 1e-5, 1e-7)
    saliency = gw.saliency(model, tf.constant(texts), target, layer="embed")
    assert saliency.values.shape[:2] == (2, 4)
