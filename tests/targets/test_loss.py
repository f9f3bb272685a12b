"""The loss as a target: another one, sample weights, class weights, labels."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import BATCH, BIAS, CLASSES, KERNEL, OUTPUT, X, array, linear, two_outputs

Y = np.linspace(-1, 1, BATCH * CLASSES).reshape(BATCH, CLASSES).astype("float32")
LABELS = np.array([0, 4, 2, 4])
WEIGHTS = [0.5, 2.0, 0.0, 3.0]


def bias_gradient(found):
    return found.to_numpy()["head/bias"]


def squared(weights):
    """d/d(bias) of the weighted mean squared error: mean over examples and classes."""
    total = np.zeros(CLASSES)
    for example, weight in enumerate(weights):
        total += weight * 2 * (OUTPUT[example] - Y[example]) / CLASSES
    return total / BATCH


def cross_entropy(weights):
    """d/d(bias) of the weighted cross entropy of logits, example by example."""
    total = np.zeros(CLASSES)
    for example, (weight, label) in enumerate(zip(weights, LABELS, strict=True)):
        shifted = np.exp(OUTPUT[example] - OUTPUT[example].max())
        share = shifted / shifted.sum()
        share[label] -= 1
        total += weight * share
    return total / BATCH


LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.mark.parametrize(
    "weights",
    [WEIGHTS, tuple(WEIGHTS), np.array(WEIGHTS), ops.convert_to_tensor(WEIGHTS)],
    ids=["list", "tuple", "array", "tensor"],
)
def test_sample_weights_weigh_examples(weights):
    """Each example's share of the gradient is multiplied by its weight."""
    target = gw.loss("mse", sample_weight=weights)
    found = gw.gradients(linear(), X, Y, target=target)
    np.testing.assert_allclose(bias_gradient(found), squared(WEIGHTS), rtol=1e-4)


def test_class_weights_weigh_examples_by_their_label():
    """A class that is not named weighs one."""
    target = gw.loss(LOGITS, class_weight={4: 3.0, 2: 0.25})
    found = gw.gradients(linear(), X, LABELS, target=target)
    expected = cross_entropy([1.0, 3.0, 0.25, 3.0])
    np.testing.assert_allclose(bias_gradient(found), expected, rtol=1e-4, atol=1e-6)


def test_another_loss_replaces_the_compiled_one():
    """By name, object or function; the compiled one stays what it was."""
    model = linear()
    model.compile(loss="mae", optimizer="sgd")
    function = lambda true, predicted: ops.mean((true - predicted) ** 2, -1)  # noqa: E731
    with assert_untouched(model):
        for loss in ("mse", keras.losses.MeanSquaredError(), function):
            found = gw.gradients(model, X, Y, loss=loss)
            np.testing.assert_allclose(
                bias_gradient(found), squared([1] * BATCH), rtol=1e-4
            )
        compiled = bias_gradient(gw.gradients(model, X, Y))
    signs = np.sign(OUTPUT - Y).sum(axis=0) / Y.size
    np.testing.assert_allclose(compiled, signs, rtol=1e-5)


def test_loss_takes_a_loss_target():
    """`loss=gradwatch.loss(…)` is what one writes after reading about `target`."""
    found = gw.gradients(
        linear(), X, Y, loss=gw.loss("mse", sample_weight=np.array(WEIGHTS))
    )
    np.testing.assert_allclose(bias_gradient(found), squared(WEIGHTS), rtol=1e-4)


def test_new_weights_need_no_new_trace():
    """Weights are data: an inspector that met some takes others."""
    inspect = gw.Inspector(linear(), loss="mse")
    for weights in (WEIGHTS, [1.0, 0.0, 0.0, 0.0]):
        found = inspect(X, Y, target=gw.loss("mse", sample_weight=weights))
        np.testing.assert_allclose(bias_gradient(found), squared(weights), rtol=1e-4)
    if keras.backend.backend() != "torch":
        assert inspect.num_traces == 1


def test_recompiling_changes_the_loss():
    """A pass that was kept is not used for a loss that has been replaced."""
    model = linear()
    model.compile(loss="mse", optimizer="sgd")
    inspect = gw.Inspector(model)
    np.testing.assert_allclose(
        bias_gradient(inspect(X, Y)), squared([1] * BATCH), rtol=1e-4
    )
    model.compile(loss="mae", optimizer="sgd")
    signs = np.sign(OUTPUT - Y).sum(axis=0) / Y.size
    np.testing.assert_allclose(bias_gradient(inspect(X, Y)), signs, rtol=1e-5)


def test_labels_may_be_given_by_output_name():
    """A dict of labels for a list of outputs, as `fit` takes it."""
    model = two_outputs()
    model.compile(loss={"cls": "mse", "reg": "mae"}, optimizer="sgd")
    cls, reg = Y[:, :2], Y[:, :1]
    by_name = gw.gradients(model, X, {"cls": cls, "reg": reg}).to_numpy()
    by_place = gw.gradients(model, X, [cls, reg]).to_numpy()
    assert list(by_name) == list(by_place)
    for name, gradient in by_name.items():
        np.testing.assert_allclose(gradient, by_place[name], rtol=1e-5, atol=1e-7)
    assert float(np.abs(by_name["cls/bias"]).sum()) > 0


# labels that are needed, and labels that are not --------------------------------------


def refused(model, match, *args, error=gw.GradwatchError, **options):
    with assert_untouched(model), pytest.raises(error, match=match) as info:
        gw.gradients(model, *args, **options)
    text = str(info.value)
    assert "\n" not in text
    assert "node" not in text
    return text


@pytest.mark.parametrize("y", [None, Y], ids=["no labels", "labels"])
def test_an_uncompiled_model_has_no_loss(y):
    """The three ways out are named: `loss=`, `target=`, `compile`."""
    text = refused(linear(), "Received: 'linear'", X, y)
    for way in ("`loss=", "`target=gradwatch.", "`model.compile(loss=…)`"):
        assert way in text


@pytest.mark.parametrize("y", [None, Y], ids=["no labels", "labels"])
def test_a_model_compiled_without_a_loss_has_none(y):
    """`compile(optimizer=…)` alone is not enough, on any backend."""
    model = linear()
    model.compile(optimizer="sgd")
    assert "`loss=" in refused(model, "'linear'", X, y)


def test_a_loss_without_labels_can_come_from_the_layers():
    """Regularisers and `add_loss` make a loss that needs no labels."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(CLASSES, kernel_regularizer="l2", name="head"),
        ]
    )
    model.set_weights([KERNEL, BIAS])
    model.compile(optimizer="sgd")
    found = gw.gradients(model, X)
    np.testing.assert_allclose(
        found.to_numpy()["head/kernel"], 2 * 0.01 * KERNEL, rtol=1e-5
    )
    assert found.missing["head/bias"].cause in ("other_output", "not_on_path")


def test_a_loss_needs_labels():
    """Without `y` the error says so, and names a target that needs none."""
    model = linear()
    model.compile(loss="mse", optimizer="sgd")
    for options in ({}, {"loss": "mse"}, {"target": gw.loss()}):
        text = refused(model, "`y` must hold the labels", X, **options)
        assert "`target=gradwatch.class_score(i)`" in text


@pytest.mark.parametrize(
    "target", [gw.class_score(0), gw.mean_output(), lambda out: ops.mean(out)]
)
def test_labels_that_nothing_looks_at_are_refused(target):
    """`y` with a target that is no loss is a misunderstanding."""
    text = refused(linear(), "`y` is used only by a loss", X, Y, target=target)
    assert "Leave `y` out" in text


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (Y[:3], "`y` must have one label per example of `x`. Received: 3 labels for 4"),
        (Y[:0], "`y` must have at least one example"),
        (0.0, "`y` must have a batch axis"),
        ([[1.0, 2.0], [1.0]], "`y` must hold arrays of"),
        ("labels", "`y` must hold"),
        (np.array(["a", "b", "c", "d"]), "`y` must hold"),
        (iter([Y]), "`y` must be one batch of arrays"),
        (np.array([{}, [], 1, None], dtype=object), "`y` must hold arrays"),
        ([], "`y` must hold at least one array"),
    ],
    ids=[
        "too few",
        "empty",
        "scalar",
        "ragged",
        "text",
        "texts",
        "iterator",
        "objects",
        "nothing",
    ],
)
def test_labels_must_be_a_batch(y, match):
    """Each kind of wrong `y` has its own sentence, the same on every backend."""
    model = linear()
    model.compile(loss="mse", optimizer="sgd")
    refused(model, match, X, y)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_labels_of_another_shape_are_noted(compiled):
    """Keras's own error, of its own type, with a note on the shapes that met."""
    model = linear()
    model.compile(loss="mse", optimizer="sgd")
    y = np.zeros((BATCH, CLASSES + 2))
    with (
        assert_untouched(model),
        pytest.raises(Exception, match=r"(?s)\d.*\d") as info,
    ):
        gw.gradients(model, X, y, compiled=compiled)
    notes = " ".join(info.value.__notes__)
    assert "the target, the loss" in notes
    assert f"({BATCH}, {CLASSES + 2})" in notes
    assert f"({BATCH}, {CLASSES})" in notes


@pytest.mark.parametrize(
    "y",
    [
        {"cls": Y[:, :2], "regg": Y[:, :1]},
        {"cls": Y[:, :2]},
        [Y[:, :2]],
        Y[:, :2],
    ],
    ids=["misspelt", "one key", "one of two", "bare"],
)
def test_labels_must_have_the_structure_of_the_outputs(y):
    """Misspelt keys and missing labels are refused in words that name `y`."""
    model = two_outputs()
    model.compile(loss=["mse", "mse"], optimizer="sgd")
    text = refused(model, "`y` must", X, y)
    assert "'cls', 'reg'" in text


def test_a_layer_has_no_loss():
    """Only a model has one; the error names a target that needs none."""
    layer = layers.Dense(2, name="d")
    layer.build((None, 3))
    for options in ({}, {"loss": "mse"}):
        with pytest.raises(gw.GradwatchError, match=r"loss needs a `keras\.Model`"):
            gw.gradients(layer, X, Y[:, :2], **options)
    assert list(gw.gradients(layer, X, target=gw.mean_output())) == ["kernel", "bias"]
    np.testing.assert_array_equal(array(layer.bias), 0)
