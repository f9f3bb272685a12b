"""NaN and infinity in data, labels or weights are reported, not hidden."""

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch.testing import assert_untouched

from .models import X, chain, dense, mlp

Y = np.zeros((len(X), 2), "float32")


def bad(array, *values):
    out = array.copy()
    out.flat[: len(values)] = values
    return out


def test_nan_in_the_data_is_counted_below_the_table():
    """The footer says how many numbers of `x` are not finite."""
    model = mlp()
    with assert_untouched(model):
        found = gw.gradients(model, bad(X, np.nan, np.inf), Y)
    assert "2 non-finite of 12 numbers in `x`" in str(found)
    assert "2 non-finite of 12 numbers in `x`" in found._repr_html_()
    assert "non-finite of" not in str(gw.gradients(model, X, Y))


def test_the_input_that_holds_it_is_named():
    """Of several inputs, by its key."""
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model({"a": a, "b": b}, dense("d")(a + b))
    x = {"a": X, "b": bad(X, -np.inf)}
    text = str(gw.gradients(model, x, target=gw.mean_output()))
    assert "1 non-finite of 12 numbers in `x[b]`" in text
    assert "`x[a]`" not in text


def test_nan_in_the_labels_is_reported():
    """The loss is NaN and the inputs are fine: the labels are to blame."""
    found = gw.gradients(mlp(), X, bad(Y, np.nan))
    assert "1 non-finite of 8 numbers in `y`" in str(found)
    assert "numbers in `x`" not in str(found)


def test_nan_in_the_weights_is_reported():
    """The weight that holds it is named."""
    model = mlp()
    kernel = model.get_layer("hidden").kernel
    kernel.assign(bad(np.asarray(keras.ops.convert_to_numpy(kernel)), np.nan))
    found = gw.gradients(model, X, Y)
    assert "1 non-finite of 12 numbers in `hidden/kernel`" in str(found)


def test_non_finite_gradients_are_counted_apart():
    """Each kind has its own count; norm and mean are those of the finite rest."""
    model = chain(dense("d"))
    x = bad(X, np.inf, -np.inf, np.nan)
    found = gw.gradients(model, x, target=gw.mean_output())
    row = next(row for row in found.summary() if row.name == "d/kernel")
    gradient = found.to_numpy()["d/kernel"]
    assert row.nan == np.isnan(gradient).sum() > 0
    assert row.posinf == np.isposinf(gradient).sum() > 0
    assert row.neginf == np.isneginf(gradient).sum() > 0
    assert row.nonfinite == row.nan + row.posinf + row.neginf == gradient.size
    bias = next(row for row in found.summary() if row.name == "d/bias")
    assert bias.nonfinite == 0
    assert bias.norm == pytest.approx(np.linalg.norm(found.to_numpy()["d/bias"]))


def test_a_result_full_of_nan_can_be_shown_everywhere():
    """Text, HTML, numbers and the plot, without a warning."""
    wrt = [gw.weights(), gw.activations(), gw.inputs()]
    found = gw.gradients(mlp(), np.full_like(X, np.nan), Y, wrt=wrt)
    assert "nan" in str(found).lower()
    assert "NaN" in found._repr_html_()
    assert np.isnan(found.to_dict()["value"])
    assert found.plot() is not None


def test_whole_numbers_are_not_searched():
    """Integers are always finite."""
    model = chain(keras.layers.Embedding(4, 2, name="embed"), shape=(2,), dtype="int32")
    found = gw.gradients(model, np.array([[0, 3]]), target=gw.mean_output())
    assert "non-finite of" not in str(found)
