"""A whole dataset: the same values as in one call, from any data."""

import dataclasses
import functools
import json
import math
import re
import warnings

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch import attribute
from gradwatch.attribute import AttributedDataset, Place, attribute_dataset

from .datasets import DATA, LABELS, SIZE, Doubled, batches, contents, made, small
from .models import TOKENS, close, fill, numbers, text

OPTIONS = {"steps": 4, "batch_size": SIZE}


@functools.cache
def expected():
    return gw.integrated_gradients(small(), DATA, gw.class_score(LABELS), **OPTIONS)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Integrated gradients of the data, with everything kept."""
    path = tmp_path_factory.mktemp("store") / "why.zarr"
    keep = attribute._layout.KEEP
    return attribute_dataset(
        small(), (DATA, LABELS), "label", to=path, keep=keep, **OPTIONS
    )


# values -------------------------------------------------------------------------------


def test_values_are_those_of_one_call_over_everything(store):
    """Cut into batches, the last one smaller, each example has the same numbers."""
    assert len(store) == len(DATA)
    assert store.complete
    assert store.nonfinite == 0
    for name in ("values", "score", "delta", "baseline_score", "inputs"):
        found, wanted = getattr(store, name), getattr(expected(), name)
        assert np.abs(np.asarray(found) - wanted).max() < 1e-6, name
    assert np.array_equal(np.asarray(store.activation), DATA)


def test_examples_and_batches_come_back_as_attributions(store):
    """By number, slice or list, one by one or batch by batch, read from disk."""
    wanted = expected()
    for some in (3, -1, slice(2, 11), slice(None, None, 5), [7, 0, 17], slice(4, 4)):
        found = store[some]
        rows = [some] if isinstance(some, int) else some
        assert isinstance(found, gw.Attribution)
        assert np.abs(found.values - wanted.values[rows]).sum() < 1e-5
        assert np.array_equal(found.inputs, DATA[rows])
        assert np.array_equal(found.activation, DATA[rows])
    assert [len(batch) for batch in store.batches()] == [4, 4, 4, 4, 2]
    each = [example.values for example in store]
    assert np.array_equal(np.concatenate(each), np.asarray(store.values))
    first = store[0]
    assert (first.method, first.layer) == ("integrated_gradients", None)
    assert first.settings["steps"] == 4
    assert first.places[0].channels == wanted.places[0].channels
    with pytest.raises(IndexError, match="There are 18 examples. Received: 18"):
        store[18]


def test_summary_is_that_of_all_numbers(store):
    """One pass over the store gives what NumPy gives for everything at once."""
    found = store.summary()
    assert (found["examples"], found["batches"], found["nonfinite"]) == (18, 5, 0)
    for name, numbers_ in (
        ("score", store.score),
        ("delta", store.delta),
        ("values", store.values),
    ):
        told = found[name]["inputs"] if name == "values" else found[name]
        array = np.asarray(numbers_, "float64")
        wanted = [array.mean(), np.abs(array).mean(), array.min(), array.max()]
        assert np.allclose([*told.values()], wanted, rtol=1e-6)


# what other tools read ----------------------------------------------------------------


def test_an_npz_export_is_one_file_that_numpy_reads(tmp_path):
    """With every column, and what they are; nothing else is left beside the store."""
    made(tmp_path / "why.zarr").export(tmp_path / "why.npz")
    assert {path.name for path in tmp_path.iterdir()} == {"why.npz", "why.zarr"}
    with np.load(tmp_path / "why.npz") as file:
        assert set(file.files) == {"words", "values", "score", "delta"}
        assert np.array_equal(file["values"], 2 * DATA)
        assert np.array_equal(file["score"], DATA.sum(axis=1))
        words = json.loads(str(file["words"]))
        assert (words["method"], words["batches"]) == ("doubled", [4, 4, 4, 4, 2])
        assert words["complete"] is True


def test_zarr_is_a_group_with_attributes(tmp_path):
    """The library opens it without us: arrays, chunks of a batch, attributes."""
    import zarr

    made(tmp_path / "why.zarr")
    group = zarr.open_group(tmp_path / "why.zarr", mode="r")
    assert np.array_equal(group["values"][:], 2 * DATA)
    assert group["values"].chunks == (SIZE, 3)
    assert group["values"].metadata.dimension_names == ("example", "values_1")
    assert group.attrs["complete"] is True
    assert (group.attrs["method"], group.attrs["target"]) == ("doubled", "it")
    assert [path.name for path in tmp_path.iterdir()] == ["why.zarr"]
    assert not list(tmp_path.rglob("*.partial"))


def test_a_parquet_export_has_a_row_per_example_and_a_group_per_batch(tmp_path):
    """Lists of fixed size, with their shape in the schema."""
    from pyarrow import parquet

    made(tmp_path / "why.zarr").export(tmp_path / "why.parquet")
    file = parquet.ParquetFile(tmp_path / "why.parquet")
    assert file.metadata.num_row_groups == 5
    table = file.read()
    assert np.allclose(table["values"].to_pylist(), 2 * DATA)
    assert json.loads(table.schema.field("values").metadata[b"shape"]) == [3]
    assert table["score"].to_pylist() == DATA.sum(axis=1).tolist()
    assert json.loads(table.schema.metadata[b"gradwatch"])["method"] == "doubled"
    assert {path.name for path in tmp_path.iterdir()} == {"why.parquet", "why.zarr"}


def test_several_inputs_have_an_array_each(tmp_path):
    """By their names, in the store and in what comes back; a dict goes in."""
    a, b = keras.Input((3,), name="a"), keras.Input((2, 2), name="b")
    h = keras.layers.Concatenate()([a, keras.layers.Flatten()(b)])
    model = fill(keras.Model({"a": a, "b": b}, keras.layers.Dense(2)(h)))
    data = {"a": numbers(5, 3), "b": numbers(5, 2, 2, seed=1)}
    target = gw.class_score([0, 1, 1, 0, 1])
    found = attribute_dataset(
        model,
        data,
        target,
        to=tmp_path / "why.zarr",
        method=gw.input_x_gradient,
        batch_size=2,
        keep=("values", "score", "inputs"),
    )
    wanted = gw.input_x_gradient(model, data, target)
    assert found.names == wanted.names == ["inputs[a]", "inputs[b]"]
    for name, values in wanted.values.items():
        close(np.asarray(found.values[name]), values, 1e-5)
        close(found[1:4].values[name], values[1:4], 1e-5)
        close(found[1:4].activation[name], data[name[-2]][1:4])
    assert found.delta is None
    found.export(tmp_path / "why.npz")
    with np.load(tmp_path / "why.npz") as file:
        close(file["values.inputs[b]"], wanted.values["inputs[b]"], 1e-5)


def test_a_layer_and_tokens(tmp_path):
    """Values at an embedding; without what was there, its shape is still known."""
    model, target = text(), gw.class_score(1)
    options = {"layer": "embed", "method": gw.input_x_gradient, "batch_size": 2}
    path = tmp_path / "why.zarr"
    found = attribute_dataset(model, TOKENS, target, to=path, **options)
    wanted = gw.input_x_gradient(model, TOKENS, target, layer="embed")
    close(np.asarray(found.values), wanted.values, 1e-5)
    assert (found.layer, found.inputs, found.activation) == ("embed", None, None)
    close(found[:2].sum_channels().values, wanted[:2].sum_channels().values, 1e-5)
    assert np.isnan(found[0].activation).all()
    assert found[0].place().spatial == wanted[0].place().spatial


# any data -----------------------------------------------------------------------------


class Sequence(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()

    def __len__(self):
        return 5

    def __getitem__(self, number):
        return batches()[number]


def of_tensorflow():
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((DATA, LABELS)).batch(SIZE)


def of_torch():
    import torch

    pairs = [(torch.tensor(x), int(y)) for x, y in zip(DATA, LABELS, strict=True)]
    return torch.utils.data.DataLoader(pairs, batch_size=SIZE)


def on_disk():
    import zarr

    return zarr.array(DATA), zarr.array(LABELS)


SOURCES = {
    "arrays": lambda: (DATA, LABELS),
    "weights": lambda: (DATA, LABELS, np.ones(len(DATA))),
    "tensors": lambda: tuple(map(keras.ops.convert_to_tensor, (DATA, LABELS))),
    "on disk": on_disk,
    "list of batches": batches,
    "generator": lambda: iter(batches()),
    "function": lambda: lambda: iter(batches()),
    "PyDataset": Sequence,
    "tf.data": of_tensorflow,
    "DataLoader": of_torch,
}


@pytest.mark.parametrize("name", SOURCES)
def test_any_data_gives_the_same(name, tmp_path):
    """Every kind of data is walked batch by batch, with its labels."""
    method = Doubled()
    found = made(tmp_path / "why.zarr", SOURCES[name](), method)
    assert method.sizes == [4, 4, 4, 4, 2]
    assert np.array_equal(np.asarray(found.values), 2 * DATA)


def test_a_list_of_arrays_is_several_inputs(tmp_path):
    """As for `fit`: a tuple has the labels, a list has inputs."""
    seen = []

    def method(model, x, target, **options):
        seen.append([part.shape for part in x])
        return Doubled()(model, x[0], target)

    options = {"to": tmp_path / "why.zarr", "method": method, "batch_size": 10}
    attribute_dataset(small(), [DATA, DATA[:, :2]], gw.class_score(0), **options)
    assert seen == [[(10, 3), (10, 2)], [(8, 3), (8, 2)]]


def test_data_without_labels_and_without_a_batch_size(tmp_path):
    """Arrays are cut into 32, as in Keras; a table of pandas is an array."""
    import pandas as pd

    data, target = pd.DataFrame(numbers(70, 3)), gw.class_score(0)
    method = Doubled()
    options = {"to": tmp_path / "why.zarr", "method": method}
    found = attribute_dataset(small(), data, target, **options)
    assert method.sizes == [32, 32, 6]
    assert np.array_equal(np.asarray(found.values), 2 * numbers(70, 3))


def test_num_batches_ends_what_has_no_end(tmp_path):
    """An infinite generator stops there, and nothing is drawn beyond."""
    drawn = []

    def endless():
        while True:
            drawn.append(1)
            yield numbers(2, 3)

    options = {"to": tmp_path / "why.zarr", "method": Doubled(), "num_batches": 3}
    found = attribute_dataset(small(), endless, gw.class_score(0), **options)
    assert (len(found), len(drawn), found.num_batches) == (6, 3, 3)


# any target ---------------------------------------------------------------------------

ONE_HOT = np.eye(3, dtype="float32")[LABELS]
TARGETS = {
    "label": ("label", LABELS),
    "label in a column": ("label", LABELS[:, None].astype("float32")),
    "label one-hot": ("label", ONE_HOT),
    "one for each example": (gw.class_score(LABELS), None),
    "of a batch": (lambda x, y: gw.class_score(np.argmax(y, axis=1)), ONE_HOT),
}


@pytest.mark.parametrize("name", TARGETS)
def test_each_example_is_explained_by_its_own_class(name, tmp_path):
    """Labels, classes for the whole dataset, and a function of the batch agree."""
    target, labels = TARGETS[name]
    data = DATA if labels is None else (DATA, labels)
    options = {"to": tmp_path / "why.zarr", "batch_size": SIZE, "steps": 4}
    found = attribute_dataset(small(), data, target, **options)
    assert np.abs(np.asarray(found.values) - expected().values).max() < 1e-6


def test_a_function_of_the_outputs_is_a_target(tmp_path):
    """With one argument it is what it is elsewhere."""
    options = {"to": tmp_path / "why.zarr", "batch_size": SIZE, "method": gw.saliency}
    target = lambda out: out[:, 2] - out[:, 0]  # noqa: E731
    found = attribute_dataset(small(), DATA, target, **options)
    wanted = gw.saliency(small(), DATA, target)
    assert np.abs(np.asarray(found.values) - wanted.values).max() < 1e-6


@pytest.mark.parametrize("order", [("a.b", "a/b"), ("a/b", "a.b")])
def test_layers_that_differ_in_a_slash_have_a_column_each(order, tmp_path):
    """A slash becomes a point in a column, which must not make two layers one."""
    from pyarrow import parquet

    class Two(Doubled):
        def __call__(self, model, x, target, **options):
            found = super().__call__(model, x, target, **options)
            places = [Place("a.b", 2 * x, x), Place("a/b", 3 * x, -x)]
            chosen = tuple(p for name in order for p in places if p.name == name)
            return dataclasses.replace(found, places=chosen)

    keep = ("values", "score", "activation")
    found = made(tmp_path / "why.zarr", method=Two(), keep=keep)
    for one in (found, found[:]):
        assert np.array_equal(one.values["a.b"], 2 * DATA)
        assert np.array_equal(one.values["a/b"], 3 * DATA)
        assert np.array_equal(one.activation["a/b"], -DATA)
    found.export(tmp_path / "why.npz")
    found.export(tmp_path / "why.parquet")
    table = parquet.read_table(tmp_path / "why.parquet")
    with np.load(tmp_path / "why.npz") as file:
        for name, factor in (("values.a.b", 2), ("values.a.b_2", 3)):
            assert np.array_equal(file[name], factor * DATA)
            assert np.allclose(table[name].to_pylist(), factor * DATA)
    found[:].save(tmp_path / "one.npz")
    loaded = gw.Attribution.load(tmp_path / "one.npz")
    assert np.array_equal(loaded.values["a.b"], 2 * DATA)
    assert np.array_equal(loaded.values["a/b"], 3 * DATA)


# what is seen on the way --------------------------------------------------------------


def test_numbers_that_are_not_finite_are_counted_and_do_not_end_it(tmp_path):
    """The batch is in the store as it is, and a warning says which one."""
    data = DATA.copy()
    data[5, 1], data[6, 0] = np.nan, np.inf
    # Not `pytest.warns`, which raises what Keras 3.15.1 warns of on the way.
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", UserWarning)
        found = made(tmp_path / "why.zarr", (data, LABELS))
    [told] = [str(w.message) for w in seen if w.category is UserWarning]
    assert re.search(r"2 of 18 examples .* 1 batch \(1\)", told)
    assert (found.nonfinite, found.nonfinite_batches) == (2, [1])
    assert np.array_equal(np.asarray(found.values), 2 * data, equal_nan=True)
    wanted = 2 * np.abs(data[np.isfinite(data)].astype("float64")).mean()
    assert np.isclose(found.summary()["values"]["inputs"]["mean_abs"], wanted)


def test_progress_is_shown_in_a_terminal_or_on_request(tmp_path, capsys, monkeypatch):
    """Nothing in a pipe; lines if asked for; a bar in a terminal."""
    monkeypatch.setattr("gradwatch.attribute._progress.SECONDS", math.inf)
    made(tmp_path / "a.zarr")
    made(tmp_path / "b.zarr", progress=False)
    said = capsys.readouterr()
    assert said.out == said.err == ""
    made(tmp_path / "c.zarr", progress=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "c.zarr: 5 of 5 batches, 18 examples\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    for name, data in (("d.zarr", None), ("e.zarr", iter(batches()))):
        made(tmp_path / name, data)
        said = capsys.readouterr()
        assert said.out == ""
        assert name in said.err
        assert "18 examples" in said.err


def test_settings_that_differ_from_batch_to_batch_stay_with_theirs(tmp_path):
    """`steps="auto"` may need more for one batch than for another."""

    class Growing(Doubled):
        def __call__(self, model, x, target, **options):
            found = super().__call__(model, x, target, **options)
            found.settings["steps"] = 10 * len(self.sizes)
            return found

    found = made(tmp_path / "why.zarr", method=Growing())
    assert [batch.settings["steps"] for batch in found.batches()] == [
        10,
        20,
        30,
        40,
        50,
    ]
    assert found[9].settings == {"factor": 2.0, "steps": 30}
    assert found.settings["steps"] == 10


def test_the_model_is_left_alone(tmp_path):
    """After success, and after a method that raises."""
    from gradwatch.testing import assert_untouched

    with assert_untouched(small()):
        made(tmp_path / "why.zarr")
        with pytest.raises(gw.GradwatchError, match="`index`"):
            attribute_dataset(small(), DATA, gw.class_score(7), to=tmp_path / "b.zarr")
    assert contents(AttributedDataset.open(tmp_path / "why.zarr"))[1] == [4, 4, 4, 4, 2]


def test_a_mask_chooses_examples(tmp_path):
    """As it does in an array, and not the examples 0 and 1."""
    found = made(tmp_path / "why.zarr")
    mask = DATA[:, 0] > 0
    assert 0 < mask.sum() < len(DATA)
    assert (found[mask].values == 2 * DATA[mask]).all()
    assert (found[mask.tolist()].values == 2 * DATA[mask]).all()
    with pytest.raises(IndexError, match="mask must have one value for each of the 18"):
        found[mask[:5]]
