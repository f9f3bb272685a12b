"""The result: a mapping by name, a table, numbers for further use, a plot."""

import html
import json
import math
import re

import keras
import numpy as np
import pytest
from keras import layers, ops

import gradwatch as gw
from gradwatch.testing import known

from .models import SEQUENCE, WIDTH, X, array, chain, dense, do, mlp, stop

EVERYTHING = [gw.weights(), gw.activations(), gw.inputs()]


def ask(model, wrt=EVERYTHING, x=X, **options):
    options.setdefault("target", gw.mean_output())
    return gw.gradients(model, x, wrt=wrt, **options)


@pytest.fixture(scope="module")
def cut():
    """a → stop → b: half of it has gradients, half of it reasons."""
    return ask(chain(dense("a"), do(stop, "cut"), dense("b")))


# a mapping ----------------------------------------------------------------------------


def test_it_maps_names_to_gradients(cut):
    """Length, order, membership and items are those of what has a gradient."""
    assert list(cut) == ["b/kernel", "b/bias", "cut", "b"]
    assert len(cut) == 4
    assert dict(cut.items()).keys() == set(cut)
    assert "b/kernel" in cut
    assert "a/kernel" not in cut
    assert 3 not in cut
    assert tuple(cut["b/kernel"].shape) == (WIDTH, WIDTH)
    assert ops.is_tensor(cut["b/kernel"])


def test_names_come_in_a_fixed_order():
    """Weights in the model's order, activations in the order of the calls, inputs."""
    found = ask(mlp())
    names = ["hidden/kernel", "hidden/bias", "head/kernel", "head/bias"]
    assert list(found) == [*names, "hidden", "head", "inputs"]
    assert list(ask(mlp(), list(reversed(EVERYTHING)))) == list(found)


def test_a_missing_gradient_is_an_error_with_its_reason(cut):
    """`g[name]` does not say None; `get` does what `get` does."""
    with pytest.raises(KeyError, match=r"'a/kernel'.*`stop_gradient` in layer 'cut'"):
        cut["a/kernel"]
    assert cut.get("a/kernel") is None
    assert cut.get("zzz", 7) == 7
    assert set(cut.missing) == {"a/kernel", "a/bias", "a", "inputs"}


@pytest.mark.parametrize("method", ["__getitem__", "activation", "total", "sparse"])
@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("b/kernle", r"'b/kernle'.*Closest: 'b/kernel'"),
        ("kernel", r"'kernel'.*'a/kernel', 'b/kernel'"),
        (0, r"by name.*Received: 0.*'b/kernel'"),
        (None, r"by name.*Received: None"),
        ("", r"Received: ''"),
    ],
    ids=repr,
)
def test_a_name_that_is_not_there_is_explained(cut, method, name, match):
    """Closest names, candidates of a short name, or the names there are."""
    with pytest.raises(gw.AddressError, match=match):
        getattr(cut, method)(name)


def test_a_unique_last_part_will_do():
    """As in a selector: `bias` when there is one bias."""
    found = ask(chain(chain(dense("deep"), name="inner")))
    assert found["deep/bias"] is found["inner/deep/bias"]
    assert found["bias"] is found["inner/deep/bias"]
    assert found["deep"] is found["inner/deep"]


def test_results_are_compared_by_identity(cut):
    """A mapping of tensors cannot be compared by value; it can be a key."""
    assert cut == cut  # noqa: PLR0124
    assert {cut: 1}[cut] == 1
    assert cut != dict(cut)


# the values ---------------------------------------------------------------------------


def test_everything_agrees_with_the_chain_rule():
    """Value, gradients and activations of a model solved by hand."""
    right = known()
    found = gw.gradients(right.model, right.x, right.y, wrt=EVERYTHING)
    assert float(array(found.value)) == pytest.approx(right.value, rel=1e-5)
    expected = {**right.weights, **right.activations, "inputs": right.inputs}
    assert list(found) == list(expected)
    for name, gradient in expected.items():
        np.testing.assert_allclose(array(found[name]), gradient, rtol=1e-4, atol=1e-6)


def test_activations_are_kept_from_the_same_pass(cut):
    """Also of names whose gradient is missing, and of the inputs."""
    model = mlp()
    found = ask(model, [gw.activations(), gw.activations("head", at="input")])
    hidden = array(model.get_layer("hidden")(X))
    np.testing.assert_allclose(
        array(found.activation("hidden")), hidden, rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        array(found.activation("head:input")), hidden, rtol=1e-5, atol=1e-7
    )
    outputs = array(model(X))
    np.testing.assert_allclose(array(found.activation("head")), outputs, 1e-6, 1e-7)
    np.testing.assert_array_equal(array(cut.activation("inputs")), X)
    assert tuple(cut.activation("a").shape) == X.shape


def test_a_weight_has_no_activation(cut):
    """The error says what was asked, and how activations are kept."""
    with pytest.raises(gw.AddressError, match=r"'b/kernel', a weight.*`wrt=gradwatch"):
        cut.activation("b/kernel")


def test_the_activations_of_dropout_are_those_of_the_gradient():
    """One pass: the mask in the activation is the mask in the gradient."""
    model = chain(layers.Dropout(0.5, name="drop"))
    found = ask(model, [gw.activations("drop"), gw.inputs()], training=True)
    kept = array(found.activation("drop")) != 0
    assert 0 < kept.mean() < 1
    assert np.all(X != 0)
    np.testing.assert_array_equal(array(found["inputs"]) != 0, kept)


# calls and parts ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared():
    """A layer called twice, its outputs, inputs and each call's share."""
    inputs = keras.Input((WIDTH,))
    layer = dense("d")
    model = keras.Model(inputs, layer(ops.tanh(layer(inputs))))
    wrt = [
        gw.weights(per_call=True),
        gw.activations("d"),
        gw.activations("d", at="input"),
    ]
    return ask(model, wrt)


def test_each_call_has_its_own_name(shared):
    """`d@1`, `d@2`, what goes in, and each call's share of the weights."""
    assert set(shared) == {
        "d/kernel",
        "d/bias",
        *(
            f"d@{n}{what}"
            for n in (1, 2)
            for what in ("", ":input", "/kernel", "/bias")
        ),
    }


def test_total_adds_the_calls_of_one_thing(shared):
    """Outputs with outputs, inputs with inputs; a weight is its own total."""
    arrays = shared.to_numpy()
    for suffix in ("", ":input"):
        np.testing.assert_allclose(
            array(shared.total(f"d{suffix}")),
            arrays[f"d@1{suffix}"] + arrays[f"d@2{suffix}"],
            rtol=1e-5,
            atol=1e-7,
        )
    for own in ("kernel", "bias"):
        summed = arrays[f"d@1/{own}"] + arrays[f"d@2/{own}"]
        np.testing.assert_allclose(arrays[f"d/{own}"], summed, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(
            array(shared.total(f"d/{own}")), arrays[f"d/{own}"]
        )
    np.testing.assert_array_equal(array(shared.total("d@1")), arrays["d@1"])


def test_a_layer_called_twice_has_no_one_gradient(shared):
    """The error offers the calls and their sum, of the side that was asked."""
    with pytest.raises(gw.AddressError, match=r"'d' .*2 times.*'d@1', 'd@2'.*total"):
        shared["d"]
    with pytest.raises(gw.AddressError, match=r"'d@1:input', 'd@2:input'"):
        shared["d:input"]


def test_a_short_weight_name_means_the_weight_not_its_shares(shared):
    """`kernel` is `d/kernel`; the shares are asked by their call."""
    assert shared["kernel"] is shared["d/kernel"]


class Pair(layers.Layer):
    def call(self, x):
        return x * 2.0, {"three": x * 3.0}


@pytest.fixture(scope="module")
def pairs():
    """A layer that gives a structure, called twice."""
    inputs = keras.Input((WIDTH,))
    pair = Pair(name="p")
    first, rest = pair(inputs)
    again, more = pair(first + rest["three"])
    return ask(keras.Model(inputs, again + 2.0 * more["three"]), gw.activations("p"))


def test_tensors_of_a_structure_have_their_place_in_the_name(pairs):
    """`[0]` and `[1][three]`, for each call."""
    assert set(pairs) == {f"p@{n}{place}" for n in (1, 2) for place in PLACES}


PLACES = ("[0]", "[1][three]")


def test_total_of_one_tensor_of_a_structure(pairs):
    """Different tensors are never added together."""
    arrays = pairs.to_numpy()
    for place in PLACES:
        expected = arrays[f"p@1{place}"] + arrays[f"p@2{place}"]
        np.testing.assert_allclose(
            array(pairs.total(f"p{place}")), expected, rtol=1e-5, atol=1e-7
        )
    with pytest.raises(gw.GradwatchError, match=r"'p'.*p(@1)?\[0\].*p(@1)?\[1\]"):
        pairs.total("p")


@pytest.mark.parametrize("name", ["p", "p@1", "p[0]"])
def test_a_structure_or_several_calls_have_no_one_gradient(pairs, name):
    """The error lists what there is instead."""
    with pytest.raises(gw.AddressError, match=rf"{re.escape(repr(name))}.*'p@1\[0\]'"):
        pairs[name]


def test_calls_of_different_shape_cannot_be_added():
    """A pooling layer used on two sizes."""
    inputs = keras.Input((4, WIDTH))
    pool = layers.GlobalAveragePooling1D(name="pool", keepdims=True)
    halve = layers.AveragePooling1D(2, name="halve")
    once = halve(inputs)
    model = keras.Model(inputs, pool(halve(once)))
    found = ask(model, gw.activations("halve"), SEQUENCE)
    with pytest.raises(gw.GradwatchError, match=r"'halve' must have one shape"):
        found.total("halve")


def test_a_short_name_of_a_shared_layer_finds_its_calls():
    """What was asked as `deep` can be looked up as `deep`."""
    deep = dense("deep")
    model = chain(chain(deep, deep, name="inner"))
    found = ask(model, gw.activations("deep"))
    assert list(found) == ["inner/deep@1", "inner/deep@2"]
    arrays = found.to_numpy().values()
    np.testing.assert_allclose(
        array(found.total("deep")), sum(arrays), rtol=1e-5, atol=1e-7
    )
    with pytest.raises(gw.AddressError, match=r"'inner/deep@1', 'inner/deep@2'"):
        found["deep"]


# sparse gradients ---------------------------------------------------------------------

TOKENS = np.array([[3, 1], [1, 1]], "int32")


def embedding():
    return chain(
        layers.Embedding(5, 2, name="embed"),
        layers.Flatten(name="flat"),
        dense("b"),
        shape=(2,),
        dtype="int32",
    )


def expected_rows(model):
    """The gradient of the embedding, added up token by token."""
    kernel = array(model.get_layer("b").kernel).astype("float64")
    at_flat = np.full((2, WIDTH), 1 / (2 * WIDTH)) @ kernel.T
    rows = np.zeros((5, 2))
    for example in range(2):
        for place in range(2):
            rows[TOKENS[example, place]] += at_flat[example, 2 * place : 2 * place + 2]
    return rows


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "eager"])
def test_a_sparse_gradient_comes_dense_or_by_rows(compiled):
    """Dense by name; rows added up, each index once and in order, on request."""
    model = embedding()
    found = ask(model, gw.weights(), TOKENS, compiled=compiled)
    rows = expected_rows(model)
    np.testing.assert_allclose(array(found["embed/embeddings"]), rows, rtol=1e-5)
    np.testing.assert_allclose(
        found.to_numpy()["embed/embeddings"], rows, rtol=1e-5, atol=1e-8
    )
    indices, values = found.sparse("embed/embeddings")
    np.testing.assert_array_equal(indices, [1, 3])
    np.testing.assert_allclose(values, rows[[1, 3]], rtol=1e-5)
    sparse_here = keras.backend.backend() == "tensorflow"
    assert found.is_sparse("embed/embeddings") is sparse_here
    assert found.is_sparse("b/kernel") is False


def test_a_sparse_gradient_is_summarised_as_the_dense_one():
    """Repeated tokens are added before anything is measured."""
    model = embedding()
    row = next(
        r for r in ask(model, gw.weights(), TOKENS).summary() if "embed" in r.name
    )
    rows = expected_rows(model)
    assert row.norm == pytest.approx(np.linalg.norm(rows), rel=1e-5)
    assert row.zeros == pytest.approx(0.6)
    assert row.shape == (5, 2)
    assert row.max == pytest.approx(rows.max(), rel=1e-5)


def test_the_rows_of_a_dense_gradient():
    """A dense gradient has rows too: those that are not zero."""
    found = ask(mlp(), gw.weights())
    indices, values = found.sparse("hidden/kernel")
    np.testing.assert_array_equal(indices, np.arange(WIDTH))
    np.testing.assert_array_equal(values, found.to_numpy()["hidden/kernel"])


def test_a_single_number_has_no_rows():
    """A scalar weight is refused in words."""

    class Scale(layers.Layer):
        def build(self, shape):
            self.s = self.add_weight(shape=(), initializer="ones", name="s")

        def call(self, x):
            return x * self.s

    found = ask(chain(Scale(name="scale")), gw.weights())
    with pytest.raises(gw.GradwatchError, match=r"must have rows.*'scale/s'"):
        found.sparse("scale/s")


# numbers for further use --------------------------------------------------------------


def test_the_summary_has_a_row_for_every_name(cut):
    """Numbers where there is a gradient, None and the reason where there is none."""
    rows = {row.name: row for row in cut.summary()}
    assert set(rows) == {*cut, *cut.missing}
    for name, gradient in cut.to_numpy().items():
        row, exact = rows[name], gradient.astype("float64")
        assert row.missing is None
        assert row.shape == gradient.shape
        assert row.norm == pytest.approx(math.sqrt((exact**2).sum()))
        assert row.mean == pytest.approx(exact.mean())
        assert row.std == pytest.approx(exact.std(), abs=1e-12)
        assert (row.min, row.max) == (exact.min(), exact.max())
        assert row.zeros == (exact == 0).mean()
    for name, reason in cut.missing.items():
        assert rows[name].missing == str(reason)
        assert rows[name].norm is None
    kinds = {name: row.kind for name, row in rows.items()}
    assert (kinds["b/bias"], kinds["b"], kinds["inputs"]) == (
        "weight",
        "activation",
        "input",
    )


def test_to_dict_can_be_written_as_json(cut):
    """Plain numbers and strings, missing ones included."""
    copy = json.loads(json.dumps(cut.to_dict()))
    assert copy["target"] == cut.target
    assert copy["value"] == pytest.approx(float(array(cut.value)))
    assert [row["name"] for row in copy["rows"]] == [r.name for r in cut.summary()]
    assert copy["missing"] == {n: str(r) for n, r in cut.missing.items()}


def test_to_numpy_leaves_missing_ones_out(cut):
    """Arrays by name, for those that have a gradient."""
    arrays = cut.to_numpy()
    assert list(arrays) == list(cut)
    assert all(type(value) is np.ndarray for value in arrays.values())


# display ------------------------------------------------------------------------------


def test_print_is_a_table(cut):
    """A title with target and value, a line per name, reasons below."""
    text = str(cut)
    lines = text.splitlines()
    value = float(array(cut.value))
    assert lines[0].startswith("Gradients of mean_output() = ")
    assert float(lines[0].rpartition("= ")[2]) == pytest.approx(value, rel=1e-4)
    for heading in ("name", "shape", "norm", "mean", "std", "min", "max", "% zero"):
        assert heading in lines[1]
    for name in (*cut, *cut.missing):
        assert any(line.split()[:1] == [name] for line in lines)
    assert "no gradient (4)" in text
    assert " ".join(text.split()).count("`stop_gradient` in layer 'cut'") == 1
    assert ".:" not in text
    assert repr(cut) == text


def test_the_norms_in_the_table_are_those_of_the_gradients(cut):
    """The column is read back and compared."""
    for line in str(cut).splitlines():
        name, *cells = line.split()[:3] if line.strip() else [""]
        if name in cut and cells:
            norm = np.linalg.norm(cut.to_numpy()[name])
            assert float(cells[1]) == pytest.approx(norm, rel=1e-3)


def test_a_loss_stands_in_the_title():
    """The words of the target, and its value."""
    right = known()
    title = str(gw.gradients(right.model, right.x, right.y)).splitlines()[0]
    assert title.startswith("Gradients of the loss = ")
    assert float(title.rpartition("= ")[2]) == pytest.approx(right.value, rel=1e-4)


def test_html_is_a_table_that_escapes_names():
    """A name may be anything; none of it becomes markup."""
    name = "<img src=x onerror=alert(1)>"
    model = chain(dense("a"), do(stop, "cut"))
    found = ask(model, gw.weights())
    entries = [
        entry.__class__(
            name + entry.name,
            *(getattr(entry, f) for f in entry.__slots__[1:]),
        )
        for entry in found._entries.values()
    ]
    text = gw.Gradients(entries, target=name, value=found.value)._repr_html_()
    assert "<img" not in text
    assert html.escape(name) in text
    assert text.count("<table>") == text.count("</table>") == 1
    assert "<script" not in text


def test_rich_shows_the_same_table(cut):
    """Printed by rich it has the same names and title."""
    import io

    from rich.console import Console

    console = Console(file=io.StringIO(), width=120)
    console.print(cut)
    text = console.file.getvalue()
    assert "Gradients of mean_output()" in text
    assert all(name in text for name in cut)


def test_the_plot_is_a_figure(cut):
    """In a new figure, or in the axes it is given."""
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    figure = cut.plot()
    assert isinstance(figure, Figure)
    assert "mean_output()" in "".join(
        text.get_text() for ax in figure.axes for text in [ax.title, ax._left_title]
    ) + str(figure.get_suptitle())
    mine, ax = pyplot.subplots()
    assert cut.plot(ax=ax) is mine
    assert ax.lines or ax.collections or ax.patches
    pyplot.close(mine)


def test_the_plot_runs_along_the_depth():
    """In the order of computation, which is not that of creation here."""

    class Backwards(keras.Model):
        def __init__(self):
            super().__init__(name="backwards")
            self.last, self.first = dense("last"), dense("first")

        def call(self, x):
            return self.last(self.first(x))

    (ax,) = ask(Backwards()).plot().axes
    names = [t.get_text() for t in (*ax.get_xticklabels(), *ax.get_yticklabels())]
    shown = [name for name in names if name and "$" not in name]
    assert shown == [
        "inputs",
        *("first/kernel", "first/bias", "last/kernel", "last/bias"),
        *("first", "last"),
    ]


def test_the_plot_needs_axes(cut):
    """Anything else is refused in words."""
    with pytest.raises(
        (gw.GradwatchError, TypeError, ValueError), match="`ax` must be"
    ):
        cut.plot(ax=3)


def test_a_result_without_any_gradient_can_be_shown():
    """Everything cut: a table of dashes, a plot of marks, no numbers."""
    found = ask(chain(dense("a"), do(stop, "cut")), gw.weights())
    assert list(found) == []
    assert found.to_numpy() == {}
    assert "no gradient (2)" in str(found)
    assert "no gradient (2)" in found._repr_html_()
    assert found.plot() is not None


def test_an_activation_nobody_saw_has_no_shape():
    """A hidden cell is not a scalar; its shape is not known."""
    model = chain(layers.LSTM(WIDTH, name="rnn"), shape=SEQUENCE.shape[1:])
    found = ask(model, gw.activations("rnn/lstm_cell"), SEQUENCE)
    (line,) = [
        line for line in str(found).splitlines() if line.startswith("rnn/lstm_cell ")
    ]
    assert "scalar" not in line
    with pytest.raises(gw.AddressError, match=r"'rnn/lstm_cell'.*inside a compiled"):
        found.activation("rnn/lstm_cell")


def test_a_scalar_of_any_shape_is_a_value():
    """A target of shape (1, 1) prints and exports as a number."""
    found = ask(mlp(), target=lambda out: ops.reshape(ops.mean(out), (1, 1)))
    assert "Gradients of" in str(found)
    assert isinstance(found.to_dict()["value"], float)
