"""What cannot be a batch or a model is refused in words; nothing is touched."""

import keras
import numpy as np
import pytest
from keras import layers

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import WIDTH, X, array, chain, dense, mlp

Y = np.zeros((len(X), 2), "float32")
BATCH = len(X)


@pytest.fixture(scope="module")
def model():
    return mlp()


def refused(model, match, x, y=None, **options):
    """The message; it has a rule and what was received, and the model no trace."""
    options = options or {"target": gw.mean_output()}
    if y is not None:
        options = {}
    for compiled in (True, False):
        with (
            assert_untouched(model),
            pytest.raises(gw.GradwatchError, match=match) as info,
        ):
            gw.gradients(model, x, y, compiled=compiled, **options)
        text = str(info.value)
        assert "Received: " in text
        assert text.endswith(".")
        assert "\n" not in text
        assert not getattr(info.value, "__notes__", [])
    return text


def two_inputs(as_dict=False):
    left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
    joined = layers.Concatenate(name="join")([left, right])
    inputs = {"left": left, "right": right} if as_dict else [left, right]
    return keras.Model(inputs, dense("head", 2)(joined), name="duo")


LEFT, RIGHT = np.ones((BATCH, 3), "float32"), np.ones((BATCH, 2), "float32")


# symbols ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [lambda m: keras.Input((WIDTH,)), lambda m: m.inputs, lambda m: m.layers[0].output],
    ids=["Input", "model.inputs", "layer.output"],
)
def test_a_symbolic_tensor_holds_no_numbers(model, make):
    """`model.inputs` fed to the model is the classic mistake of old recipes."""
    text = refused(model, "`x` must hold numbers", make(model))
    assert "symbolic tensor" in text
    assert "`wrt=gradwatch.activations(" in text


def test_a_symbolic_label_holds_no_numbers(model):
    """The argument in the sentence is `y`, not `x`."""
    refused(model, "`y` must hold numbers.*symbolic", X, keras.Input((2,)))


# shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(BATCH, WIDTH + 1), (BATCH, WIDTH, 2), (BATCH, 1, WIDTH)], ids=str
)
def test_a_wrong_shape_names_the_right_one(model, shape):
    """Before Keras raises from deep inside."""
    text = refused(model, "`x` must have shape", np.ones(shape))
    assert f"(None, {WIDTH}) for input 'door' of 'demo'" in text
    assert f"Received: {shape}" in text


def test_a_missing_batch_axis_is_recognised(model):
    """One example instead of a batch: the way out is written."""
    text = refused(model, "`x` must have shape", X[0])
    assert "`x[None]`" in text


def test_a_number_is_no_batch(model):
    """Nor is an array without axes."""
    refused(model, "`x` must have a batch axis", 1.0)
    refused(model, "`x` must have a batch axis", np.float32(2))


def test_an_axis_that_keras_would_add_or_drop_is_let_through():
    """Keras takes (batch,) for (batch, 1) and the other way round; so do we."""
    narrow = chain(dense("a"), shape=(1,))
    assert len(gw.gradients(narrow, np.ones(BATCH), target=gw.mean_output())) == 2
    wide = chain(dense("a"))
    assert len(gw.gradients(wide, X[..., None], target=gw.mean_output())) == 2


@pytest.mark.parametrize("x", [X[:0], [], {}, None, [None]], ids=repr)
def test_an_empty_batch_is_refused(model, x):
    """No example, no array, nothing."""
    refused(model, "`x` must h(ave|old) at least one", x)


# several inputs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "count"), [(LEFT, 1), ([LEFT], 1), ([LEFT, RIGHT, RIGHT], 3)], ids=str
)
def test_a_wrong_number_of_inputs_names_them(x, count):
    """The inputs of the model are named."""
    text = refused(two_inputs(), "`x` must hold", x)
    assert "'left', 'right'" in text
    assert f"Received: {count}" in text


def test_x_and_y_in_one_tuple_are_recognised(model):
    """`gradients(model, (x, y))` is what a dataset gives."""
    text = refused(model, "`x` must hold", (X, Y))
    assert "two arguments" in text


@pytest.mark.parametrize(
    ("keys", "as_dict"),
    [
        (("left", "rigth"), True),
        (("left", "rigth"), False),
        (("left",), True),
        (("left",), False),
        # A model that takes a list leaves a key too many out, as it should.
        (("left", "right", "more"), True),
    ],
    ids=str,
)
def test_wrong_keys_name_the_right_ones(keys, as_dict):
    """Misspelt, missing, or one too many, which Keras would feed to a wrong layer."""
    x = {key: RIGHT if key.startswith("r") else LEFT for key in keys}
    text = refused(two_inputs(as_dict), "`x` must have the keys", x)
    assert "'left', 'right'" in text
    for key in keys:
        assert repr(key) in text


def test_a_key_of_a_single_input_must_be_its_name():
    """A dict for a model with one input."""
    text = refused(chain(dense("a")), "`x` must have the keys", {"window": X})
    assert "'door'" in text
    assert "'window'" in text


def test_the_shape_of_each_input_is_checked():
    """The input that does not fit is named."""
    text = refused(two_inputs(True), "`x` must have shape", {"left": X, "right": X})
    assert "(None, 2) for input 'right'" in text


def test_inputs_of_different_length_are_refused():
    """They must be the same examples."""
    text = refused(two_inputs(), "`x` must have the same number", [LEFT, RIGHT[:2]])
    assert "[2, 4]" in text


# what is no array ---------------------------------------------------------------------


class Pairs(keras.utils.PyDataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return X, Y


@pytest.mark.parametrize(
    "make",
    [lambda: iter([X]), lambda: (x for x in [X]), lambda: Pairs(), lambda: zip([X])],
    ids=["iterator", "generator", "PyDataset", "zip"],
)
def test_many_batches_are_not_one(model, make):
    """A dataset or a generator: the way to take one batch is written."""
    for _ in range(2):
        text = refused(model, "`x` must be one batch of arrays", make())
        assert "`x, y = next(iter(dataset))`" in text


def test_a_dataset_of_the_backend_is_not_one_batch(model):
    """`tf.data.Dataset` and torch's `DataLoader` are told what to do."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensors((X, Y))
    elif keras.backend.backend() == "torch":
        import torch

        dataset = torch.utils.data.DataLoader(list(X))
    else:
        dataset = Pairs()
    refused(model, "`x` must be one batch of arrays", dataset)


@pytest.mark.parametrize(
    "x",
    [
        [[1.0, 2.0, 3.0], [1.0, 2.0]],
        np.array([[1, 2, 3], [1, 2]], dtype=object),
        np.array([None] * BATCH),
        "x.npy",
        ["a", "b", "c"],
        np.array([["a", "b", "c"]] * BATCH),
        [X.tolist(), "a"],
        object(),
        lambda: X,
        {1, 2},
        X + 1j,
    ],
    ids=[
        "ragged",
        "objects",
        "Nones",
        "text",
        "texts",
        "text array",
        "mixed",
        "object",
        "function",
        "set",
        "complex",
    ],
)
def test_what_is_no_array_of_numbers_is_refused(model, x):
    """The same sentence on every backend, whatever its own conversion would say."""
    text = refused(model, "`x` must h(old|ave)", x)
    assert " at 0x" not in text


def test_lists_of_numbers_are_a_batch(model):
    """Plain lists work, and mean what the array means."""
    from_lists = gw.gradients(model, X.tolist(), Y.tolist()).to_numpy()
    from_arrays = gw.gradients(model, X, Y).to_numpy()
    for name, gradient in from_lists.items():
        np.testing.assert_allclose(gradient, from_arrays[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int8", "bool"])
def test_numbers_of_any_type_are_a_batch(model, dtype):
    """They are converted as `fit` converts them."""
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    found = gw.gradients(model, x, target=gw.mean_output()).to_numpy()
    right = gw.gradients(model, x.astype("float32"), target=gw.mean_output())
    for name, gradient in found.items():
        np.testing.assert_allclose(gradient, right.to_numpy()[name], rtol=1e-5)


def test_tensors_and_variables_are_a_batch(model):
    """A tensor of the backend, or a `keras.Variable`, needs no conversion."""
    right = gw.gradients(model, X, Y).to_numpy()
    for x in (keras.ops.convert_to_tensor(X), keras.Variable(X)):
        found = gw.gradients(model, x, keras.ops.convert_to_tensor(Y)).to_numpy()
        np.testing.assert_allclose(
            found["head/bias"], right["head/bias"], rtol=1e-5, atol=1e-7
        )


def test_the_callers_arrays_are_not_changed(model):
    """Neither their values nor, on torch, their flags."""
    x, tensor = X.copy(), keras.ops.convert_to_tensor(X)
    for batch in (x, tensor):
        gw.gradients(model, batch, Y, wrt=[gw.inputs(), gw.weights()])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(array(tensor), X)
    assert not getattr(tensor, "requires_grad", False)


# what is no model ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (3, "builtins.int"),
        ("model.keras", "builtins.str"),
        (None, "NoneType"),
        (lambda x: x, "function"),
        (X, "numpy.ndarray"),
        (keras.Model, "the class Model"),
        (keras.optimizers.SGD(), "SGD"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize(
    "verb",
    [
        lambda m: gw.gradients(m, X, Y),
        lambda m: gw.Inspector(m),
        lambda m: gw.why_none(m, X, Y, "head/bias"),
        lambda m: gw.layers(m),
    ],
    ids=["gradients", "Inspector", "why_none", "layers"],
)
def test_what_is_no_model_is_refused_by_every_verb(wrong, shown, verb):
    """One sentence for all of them."""
    with pytest.raises(
        gw.GradwatchError, match="`model` must be a Keras 3 model or layer"
    ) as info:
        verb(wrong)
    assert shown in str(info.value)
    assert " at 0x" not in str(info.value)


def test_a_model_without_layers_is_refused():
    """Keras's own words are good enough here; nothing of ours hides them."""
    with pytest.raises(ValueError, match=r"no layers.*model\.add"):
        gw.gradients(keras.Sequential(), X, target=gw.mean_output())


# models that are not built yet --------------------------------------------------------


class Lazy(keras.Model):
    """Builds its layers at the first call; one of them only in training."""

    def __init__(self):
        super().__init__(name="lazy")
        self.a, self.extra, self.b = dense("a"), dense("extra"), dense("b", 2)

    def call(self, x, training=False):
        x = self.a(x)
        return self.b(self.extra(x) if training else x)


@pytest.mark.parametrize("x", [X, X.tolist()], ids=["array", "list"])
def test_an_unbuilt_model_is_built_on_first_use(x):
    """In the mode of the pass, so that layers for training only are there too."""
    names = ["a/kernel", "a/bias", "extra/kernel", "extra/bias", "b/kernel", "b/bias"]
    assert sorted(gw.gradients(Lazy(), x, Y.tolist(), loss="mse")) == sorted(names)
    shorter = keras.Sequential([dense("a"), dense("b", 2)])
    shorter.compile(loss="mse")
    assert len(gw.gradients(shorter, x, Y)) == 4
    assert gw.why_none(Lazy(), x, Y, "a/bias", loss="mse").cause == "none"


def test_a_wrong_name_in_an_unbuilt_model_is_refused():
    """The weights exist by the time the name is looked up."""
    with pytest.raises(gw.AddressError, match=r"`wrt` must name.*'a/kernel'"):
        gw.gradients(Lazy(), X, Y, loss="mse", wrt=gw.weights("a/kernle"))


@pytest.mark.parametrize("wrong", ["yes", 0.5])
def test_the_mode_is_a_truth_value(model, wrong):
    """`training` is True, False or left out."""
    with pytest.raises(gw.GradwatchError, match="`training` must be"):
        gw.gradients(model, X, Y, training=wrong)
