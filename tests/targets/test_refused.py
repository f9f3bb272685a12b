"""A target that is not one number is refused, with the ways to make it one."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import BATCH, CLASSES, PIXELS, WIDTH, X, linear, segmentation, two_outputs

Y = np.zeros((BATCH, CLASSES), "float32")


@pytest.fixture(scope="module")
def model():
    made = linear()
    made.compile(loss="mse", optimizer="sgd")
    return made


@pytest.fixture(scope="module")
def two():
    return two_outputs()


def refused(model, match, error=gw.TargetError, x=X, y=None, **options):
    """The message of the error; the model is untouched by it."""
    with assert_untouched(model), pytest.raises(error, match=match) as info:
        gw.gradients(model, x, y, **options)
    text = str(info.value)
    assert "Received: " in text
    assert text.endswith(".")
    for internal in (" at 0x", "Tensor(", "tensor(", "Tracer", "keras.src"):
        assert internal not in text
    assert "\n" not in text
    return text


# class scores -------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize(
    "index", [CLASSES, -CLASSES - 1, 2**40, [0, 1, CLASSES, 0], [0, -CLASSES - 1, 0, 0]]
)
def test_a_class_out_of_range_is_refused(model, index, compiled):
    """The range and the offending index are named."""
    text = refused(
        model, "`index` must be", target=gw.class_score(index), compiled=compiled
    )
    worst = max(np.ravel(index), key=abs)
    assert f"from -{CLASSES} to {CLASSES - 1}" in text
    assert f"Received: {worst}" in text


def test_a_class_out_of_range_is_refused_by_a_kept_pass_too(model):
    """The second call of an inspector checks what the first one checked."""
    inspect = gw.Inspector(model, target=gw.class_score(0))
    inspect(X)
    with pytest.raises(gw.TargetError, match=r"`index`.*Received: 7"):
        inspect(X, target=gw.class_score(7))
    with pytest.raises(gw.TargetError, match=r"`index`.*shape \(3,\)"):
        inspect(X, target=gw.class_score([0, 1, 2]))


@pytest.mark.parametrize(
    "index", [1.0, [0.0, 1.0], True, "cat", None, [], np.float32(1)], ids=repr
)
def test_a_class_is_a_whole_number(index):
    """Floats, truth values, names and nothing at all are no class, at once."""
    with pytest.raises(gw.TargetError, match="`index` must be a whole number") as info:
        gw.class_score(index)
    assert "'list'" not in str(info.value)


@pytest.mark.parametrize("index", [[0, 1, 2], [[0], [1], [1], [0]], [0] * 5])
def test_classes_are_one_or_one_per_example(model, index):
    """Their shape and the size of the batch are named."""
    text = refused(model, "`index` must be", target=gw.class_score(index))
    assert f"shape {np.shape(index)} for a batch of {BATCH}" in text


def test_a_segmentation_has_no_class_score():
    """One score per pixel is too many; the error writes two ways to pick."""
    model = segmentation()
    text = refused(model, "`class_score`", x=PIXELS, target=gw.class_score(1))
    assert "shape (2, 4, 4, 5)" in text
    assert "`target=gradwatch.output(index=" in text
    assert "keras.ops.mean" in text


def test_whole_number_outputs_have_no_score():
    """A model that ends in whole numbers is refused alike for every target."""
    inputs = keras.Input((WIDTH,))
    hidden = layers.Dense(CLASSES, name="h")(inputs)
    model = keras.Model(inputs, ops.cast(hidden, "int32"))
    for target in (gw.class_score(1), gw.output(index=1), gw.mean_output()):
        text = refused(model, "floating-point", target=target)
        assert "int32" in text


# several outputs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "argument"),
    [
        (gw.class_score(0), "output"),
        (gw.output(), "which"),
        (gw.mean_output(), "which"),
    ],
    ids=str,
)
def test_several_outputs_need_a_choice(two, target, argument):
    """The outputs are named, and the argument that chooses."""
    text = refused(two, f"`{argument}='cls'`", target=target)
    assert "2 outputs 'cls', 'reg'" in text


@pytest.mark.parametrize("wrong", ["clz", 2, -3, 0.5, True], ids=repr)
@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda w: gw.class_score(0, output=w), "output"),
        (lambda w: gw.output(w, index=0), "which"),
        (lambda w: gw.mean_output(w), "which"),
    ],
    ids=["class_score", "output", "mean_output"],
)
def test_an_unknown_output_is_refused(two, make, argument, wrong):
    """The outputs there are stand in the error."""
    text = refused(two, f"`{argument}` must be an output", target=make(wrong))
    assert repr(wrong) in text
    assert "'cls', 'reg'" in text


def test_an_output_of_several_units_needs_a_place(two):
    """The ways to make it one number are written out, with this output's name."""
    text = refused(two, r"`output\('cls'", target=gw.output("cls"))
    assert f"shape ({BATCH}, 2)" in text
    assert "`gradwatch.output('cls', index=…)`" in text
    assert "`gradwatch.mean_output(" in text


@pytest.mark.parametrize("index", [CLASSES, -CLASSES - 1, (0, 0)])
def test_a_place_outside_the_output_is_refused(model, index):
    """The shape of the output is named."""
    text = refused(model, "`index` must be a position", target=gw.output(index=index))
    assert f"shape ({BATCH}, {CLASSES})" in text


@pytest.mark.parametrize("index", [1.5, "a", None, (1.0,), True])
def test_a_place_is_made_of_whole_numbers(index):
    """Checked when the target is made."""
    with pytest.raises(gw.TargetError, match="`index` must be whole numbers"):
        gw.output(index=index)


# functions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda out: out, (BATCH, CLASSES)),
        (lambda out: ops.mean(out, axis=0), (CLASSES,)),
        (lambda out: out[:, :2], (BATCH, 2)),
        (lambda out: out[None], (1, BATCH, CLASSES)),
    ],
    ids=["outputs", "classes", "two columns", "more axes"],
)
def test_a_function_that_gives_many_numbers_is_refused(model, function, shape):
    """The shape and the size of the batch are named, and how to reduce."""
    text = refused(model, "one number per call", target=function)
    assert f"shape {shape} for a batch of {BATCH}" in text
    assert "`keras.ops.mean`" in text
    assert "`gradwatch.class_score(i)`" in text


@pytest.mark.parametrize(
    "function",
    [
        lambda out: 1.0,
        lambda out: None,
        lambda out: (ops.mean(out), ops.mean(out)),
        lambda out: {"a": ops.mean(out)},
        lambda out: np.float32(3),
        lambda out: np.ones(()),
        lambda out: "loss",
    ],
    ids=["number", "None", "tuple", "dict", "numpy number", "numpy array", "text"],
)
def test_a_function_must_give_a_tensor(model, function):
    """A number, nothing, several tensors or a NumPy array is no tensor to go by."""
    refused(model, "target function must give .*tensor", target=function)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda out: ops.sum(ops.cast(out, "int32")), "int32"),
        (lambda out: ops.any(out > 0), "bool"),
        (lambda out: ops.cast(ops.mean(out), "complex64"), "complex64"),
    ],
    ids=["int32", "bool", "complex64"],
)
def test_a_function_must_give_a_floating_point_number(model, function, dtype):
    """The dtype is named, and why it has no gradient."""
    assert dtype in refused(model, "floating-point number", target=function)


def test_an_error_inside_a_function_is_the_users_own(model):
    """It comes through as it is, with a note that it was the target."""
    with (
        assert_untouched(model),
        pytest.raises(ZeroDivisionError, match="by zero") as e,
    ):
        gw.gradients(model, X, target=lambda out: 1 / 0)
    assert any("target" in note for note in e.value.__notes__)


def test_a_constant_function_leaves_everything_missing(model):
    """It is one number, but nothing moves it; the reason says so."""
    found = gw.gradients(model, X, target=lambda out: ops.sum(ops.ones((3,))))
    assert list(found) == []
    for reason in found.missing.values():
        assert reason.cause == "not_on_path"
        assert "does not depend on the model's output" in str(reason)


# what is no target --------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        "mse",
        3,
        [gw.class_score(0)],
        keras.losses.MeanSquaredError,
        keras.losses.MeanSquaredError(),
        keras.losses.mean_squared_error,
        gw.class_score,
        gw.mean_output,
        gw.output,
        gw.loss,
    ],
    ids=lambda wrong: getattr(wrong, "__name__", None) or repr(wrong)[:20],
)
def test_what_is_no_target_is_refused(model, wrong):
    """The ways to say a class, an output or another loss are written out."""
    refused(model, "`target` must be", target=wrong)


@pytest.mark.parametrize("make", [lambda m: ops.ones(()), lambda m: m.outputs[0]])
def test_a_tensor_is_no_target(model, make):
    """A number already computed, or a symbol, cannot be differentiated again."""
    refused(model, "`target` must be", target=make(model))


def test_target_and_loss_exclude_each_other(model):
    """Both say what to differentiate."""
    refused(
        model, "`target` and `loss` both", y=Y, target=gw.class_score(0), loss="mse"
    )


# losses -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["nope", 3, gw.class_score(0), {"a": 3}], ids=repr)
def test_what_is_no_loss_is_refused(model, wrong):
    """Named as the argument `loss`, before anything runs."""
    refused(model, "`loss` must be", y=Y, loss=wrong)


def test_a_loss_that_gives_many_numbers_is_refused(model):
    """`reduction=None` leaves one number per example, which `fit` could not use."""
    loss = keras.losses.MeanSquaredError(reduction=None)
    text = refused(model, "A loss must be one number", y=Y, loss=loss)
    assert f"shape ({BATCH},)" in text


@pytest.mark.parametrize("weight", [[1, 2, 3], 2.0, [1] * 5, np.ones((3, 1))], ids=str)
def test_sample_weights_are_one_per_example(model, weight):
    """Their shape and the size of the batch are named."""
    text = refused(
        model, "`sample_weight` must", y=Y, target=gw.loss(sample_weight=weight)
    )
    assert f"{np.shape(weight)} for a batch of {BATCH}" in text


def test_sample_and_class_weights_exclude_each_other(model):
    """As in `fit`."""
    target = gw.loss(sample_weight=[1, 2, 3, 4], class_weight={0: 1.0})
    refused(model, "`sample_weight` or `class_weight`", y=Y, target=target)


def test_class_weights_are_a_mapping(model):
    """A list is refused in words."""
    target = gw.loss(class_weight=[1, 2])
    refused(model, "`class_weight` must", y=Y, target=target)


def test_class_weights_need_one_output():
    """As in `fit`."""
    model = two_outputs()
    model.compile(loss=["mse", "mse"])
    labels = [np.zeros((BATCH, 2)), np.zeros((BATCH, 1))]
    target = gw.loss(class_weight={0: 1.0})
    refused(model, "`class_weight` must .*single output", y=labels, target=target)
