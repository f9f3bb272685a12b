"""What a dataset cannot be explained with, each with the way out."""

import sys

import keras
import numpy as np
import pytest

import gradwatch as gw
from gradwatch import attribute
from gradwatch.attribute import AttributedDataset, attribute_dataset

from .datasets import DATA, KINDS, LABELS, Doubled, made, small
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
        made(tmp_path / "why.npz", EMPTY[name]())
    assert list(tmp_path.iterdir()) == []


REFUSED = [
    ({"path": "why.txt"}, "`to` must end in .npz, .zarr or .parquet.*'why.txt'"),
    ({"path": "no/why.npz"}, "`to` must be in a directory that exists.*Make 'no'"),
    ({"keep": ("values", "sum")}, "`keep` must hold 'values', 'score'"),
    ({"keep": "values"}, "`keep` must hold 'values', 'score'"),
    ({"keep": 3}, r"`keep` must hold 'values', 'score'.*\(3,\)"),
    ({"path": None}, "`to` must be a path .*Received: None"),
    ({"num_batches": 0}, "`num_batches` must be a whole number from 1"),
    ({"num_batches": 2.5}, "`num_batches` must be a whole number from 1"),
    ({"num_batches": "3"}, "`num_batches` must be a whole number from 1"),
    ({"batch_size": 0}, "`batch_size` must be a whole number"),
    ({"method": "saliency"}, "`method` must be a function such as"),
    ({"method": lambda *_, **__: 3}, "`method` must give an `Attribution`.*type int"),
    ({"data": [(DATA,) * 4]}, "`data` must give batches .*4 things in one"),
    ({"data": 3}, "`data` must be arrays, .*type int"),
    ({"data": (DATA, LABELS[:-1])}, r"arrays of `data` must .*\[17, 18\]"),
    ({"data": DATA}, "`target='label'` needs one array of labels.*none"),
    ({"data": (DATA, DATA[:, 0])}, "`target='label'` needs classes.*float32"),
]


@pytest.mark.parametrize(("options", "match"), REFUSED)
def test_a_wrong_argument_is_named(tmp_path, monkeypatch, options, match):
    """Before anything is computed or written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gw.GradwatchError, match=match):
        made(**{"path": "why.npz", **options})
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
    options = {"to": tmp_path / "why.npz", "batch_size": 4}
    with pytest.raises(gw.TargetError, match=match):
        attribute_dataset(small(), DATA, target, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_ours_is_not_touched(tmp_path, kind):
    """A file or folder of somebody else stays, also with `resume=False`."""
    path = tmp_path / f"why.{kind}"
    if kind == "zarr":
        path.mkdir()
        (path / "diary.txt").write_text("dear diary")
    else:
        np.savez(tmp_path / "why", a=1) if kind == "npz" else path.write_text("mine")
    for resume in (True, False):
        with pytest.raises(gw.GradwatchError, match="`to` must be a new path"):
            made(path, resume=resume)
    assert path.exists()
    assert kind != "zarr" or (path / "diary.txt").exists()


@pytest.mark.parametrize(
    ("kind", "library", "extra"),
    [("zarr", "zarr", "zarr"), ("parquet", "pyarrow", "pandas")],
)
def test_a_missing_library_is_told_by_its_extra(
    tmp_path, monkeypatch, kind, library, extra
):
    """Before anything is computed."""
    gone = [name for name in sys.modules if name.split(".")[0] == library]
    for name in {*gone, library, f"{library}.parquet"}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"`to` .*{library}.*gradwatch\[{extra}\]"):
        made(tmp_path / f"why.{kind}")


def test_examples_of_several_shapes_are_refused(tmp_path):
    """One store is one array; what came before is safe."""
    sizes = iter([numbers(2, 3), numbers(2, 4)])
    options = {"to": tmp_path / "why.npz", "method": Doubled()}
    with pytest.raises(gw.GradwatchError, match=r"`data` .* batch 1, .*\(4,\).*Pad"):
        attribute_dataset(small(), sizes, gw.class_score(0), **options)
    assert len(AttributedDataset.open(options["to"])) == 2


def test_opening_nothing_is_an_error(tmp_path):
    """With the name of the argument, and what there is."""
    with pytest.raises(gw.GradwatchError, match="`path` must be a store .* is none"):
        AttributedDataset.open(tmp_path / "why.npz")
    with pytest.raises(gw.GradwatchError, match="`path` must end in"):
        AttributedDataset.open(tmp_path / "why")


def test_a_store_of_the_future_is_refused(tmp_path, monkeypatch):
    """Its format may mean something else."""
    with monkeypatch.context() as patch:
        patch.setattr(attribute._dataset._journal, "FORMAT", 9)
        made(tmp_path / "why.npz")
    with pytest.raises(gw.GradwatchError, match="`path` must be .* format 9"):
        AttributedDataset.open(tmp_path / "why.npz")
