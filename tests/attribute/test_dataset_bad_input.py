"""What a dataset cannot be explained with, each with the way out."""

import sys

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch import attribute
from gradwatch.attribute import AttributedDataset, attribute_dataset

from .datasets import DATA, LABELS, Doubled, made, small
from .models import numbers


class Nothing(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()

    def __len__(self):
        return 0

    def __getitem__(self, number):
        raise IndexError


EMPTY = {
    "arrays": lambda: np.zeros((0, 3), "float32"),
    "generator": lambda: iter(()),
    "function": lambda: lambda: iter(()),
    "list": list,
    "PyDataset": Nothing,
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_dataset_is_an_error_that_leaves_nothing(name, tmp_path):
    """Whatever it is made of; no file, no directory."""
    with pytest.raises(gw.GradwatchError, match="`data` must give at least one batch"):
        made(tmp_path / "why.zarr", EMPTY[name]())
    assert list(tmp_path.iterdir()) == []


REFUSED = [
    ({"path": "why.txt"}, "`to` must be a path that ends in .zarr.*'why.txt'"),
    ({"path": "why.npz"}, "`to` must .* ends in .zarr.*`export`.*'why.npz'"),
    ({"path": "no/why.zarr"}, "`to` must be in a directory that exists.*Make 'no'"),
    ({"keep": ("values", "sum")}, "`keep` must hold 'values', 'score'"),
    ({"keep": "values"}, "`keep` must hold 'values', 'score'"),
    ({"keep": 3}, r"`keep` must hold 'values', 'score'.*\(3,\)"),
    ({"path": None}, "`to` must be a path .*Received: None"),
    ({"num_batches": 0}, "`num_batches` must be a whole number from 1"),
    ({"num_batches": 2.5}, "`num_batches` must be a whole number from 1"),
    ({"num_batches": "3"}, "`num_batches` must be a whole number from 1"),
    ({"batch_size": 0}, "`batch_size` must be a whole number"),
    ({"method": "saliency"}, "`method` must be a function such as"),
    ({"method": lambda *_, **__: 3}, "`method` must give an `Attribution`.*'int'"),
    ({"data": [(DATA,) * 4]}, "`data` must give batches .*4 things in one"),
    ({"data": 3}, "`data` must be arrays, .*type int"),
    ({"data": (DATA, LABELS[:-1])}, r"arrays of `data` must .*\[17, 18\]"),
    ({"data": DATA}, "`target='label'` needs one array of classes.*none"),
    (
        {"data": (DATA, DATA[:, 0])},
        "`target='label'` needs one array of classes.*float32",
    ),
]


@pytest.mark.parametrize(("options", "match"), REFUSED)
def test_a_wrong_argument_is_named(tmp_path, monkeypatch, options, match):
    """Before anything is computed or written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gw.GradwatchError, match=match):
        made(**{"path": "why.zarr", **options})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ("labels", "`target` must be a target, 'label', .*'labels'"),
        (gw.class_score([0, 1]), "`target` must be one class .* from 0 to 3"),
        (None, "`target` must say what is explained"),
    ],
)
def test_a_wrong_target_is_named(tmp_path, target, match):
    """Also one with fewer classes than there are examples."""
    options = {"to": tmp_path / "why.zarr", "batch_size": 4}
    with pytest.raises(gw.TargetError, match=match):
        attribute_dataset(small(), DATA, target, **options)


@pytest.mark.parametrize("kind", ["file", "directory", "zarr"])
def test_what_is_not_ours_is_not_touched(tmp_path, kind):
    """A file, folder or Zarr group of other origin stays, also with `resume=False`."""
    path = tmp_path / "why.zarr"
    if kind == "file":
        path.write_text("mine")
    elif kind == "directory":
        path.mkdir()
        (path / "diary.txt").write_text("dear diary")
    else:
        import zarr

        zarr.open_group(path, mode="w").create_array("a", data=DATA)
    before = sorted(path.rglob("*"))
    for resume in (True, False):
        with pytest.raises(gw.GradwatchError, match="`to` must be a new path"):
            made(path, resume=resume)
    assert path.exists()
    assert sorted(path.rglob("*")) == before


def gone(monkeypatch, library):
    names = [name for name in sys.modules if name.split(".")[0] == library]
    for name in {*names, library, f"{library}.parquet"}:
        monkeypatch.setitem(sys.modules, name, None)


def test_a_missing_zarr_is_named_by_its_extra(tmp_path, monkeypatch):
    """Before anything is computed."""
    gone(monkeypatch, "zarr")
    with pytest.raises(ImportError, match=r"`attribute_dataset` .*gradwatch\[zarr\]"):
        made(tmp_path / "why.zarr")


def test_an_old_zarr_is_refused(tmp_path, monkeypatch):
    """Before 3.1.3 it does not write atomically."""
    import zarr

    monkeypatch.setattr(zarr, "__version__", "3.1.2")
    with pytest.raises(ImportError, match=r"zarr 3.1.3 or newer .*3.1.2"):
        made(tmp_path / "why.zarr")


def test_a_missing_pyarrow_is_named_by_its_extra(tmp_path, monkeypatch):
    """And leaves no file."""
    dataset = made(tmp_path / "why.zarr")
    gone(monkeypatch, "pyarrow")
    with pytest.raises(ImportError, match=r"`path` .*pyarrow.*gradwatch\[pandas\]"):
        dataset.export(tmp_path / "why.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["why.zarr"]


def test_an_export_to_another_format_is_refused(tmp_path):
    """With the formats there are."""
    with pytest.raises(gw.GradwatchError, match="`path` must end in .npz or .parquet"):
        made(tmp_path / "why.zarr").export(tmp_path / "why.csv")


def test_examples_of_several_shapes_are_refused(tmp_path):
    """One store is one array; what came before is safe."""
    sizes = iter([numbers(2, 3), numbers(2, 4)])
    options = {"to": tmp_path / "why.zarr", "method": Doubled()}
    with pytest.raises(gw.GradwatchError, match=r"`data` .*batch 1, .*\(4,\).*Pad"):
        attribute_dataset(small(), sizes, gw.class_score(0), **options)
    assert len(AttributedDataset.open(options["to"])) == 2


def test_opening_nothing_is_an_error(tmp_path):
    """With the name of the argument, and what there is."""
    with pytest.raises(
        gw.GradwatchError, match="`path` must be a store .* is none.*why.zarr"
    ):
        AttributedDataset.open(tmp_path / "why.zarr")
    with pytest.raises(gw.GradwatchError, match="`path` must be a path that ends in"):
        AttributedDataset.open(tmp_path / "why")


def test_a_store_of_the_future_is_refused(tmp_path, monkeypatch):
    """Its format may mean something else."""
    with monkeypatch.context() as patch:
        patch.setattr(attribute._dataset._store, "FORMAT", 9)
        made(tmp_path / "why.zarr")
    with pytest.raises(gw.GradwatchError, match="`path` must be .* 'format': 9"):
        AttributedDataset.open(tmp_path / "why.zarr")
