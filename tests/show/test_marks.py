import numpy as np
import pytest

from gradwatch.show._marks import blocks_of, marks_of, spaced, without_common_start
from gradwatch.summarise import summarise_array


def marks_named(names):
    rows = [summarise_array(name, "weight", np.ones((2, 2))) for name in names]
    return [(mark.position, mark.name) for mark in marks_of(rows)[0]]


def test_blocks_are_the_finest_that_fit():
    """Blocks follow parts of addresses, or words of a part, whichever is finest."""
    names = [f"net/layer_{i}/{part}/kernel" for i in range(5) for part in "abc"]
    blocks = blocks_of(marks_named(names), most=6)
    assert [block.label for block in blocks] == [f"net/layer_{i}" for i in range(5)]
    assert [(block.first, block.last) for block in blocks][:2] == [(0, 2), (3, 5)]
    finer = blocks_of(marks_named(names), most=15)
    assert len(finer) == 15
    assert blocks_of(marks_named(names), most=2) == []


def test_labels_that_would_touch_give_way_to_longer_blocks():
    """Of two labels too near each other that of the longer block stays."""
    blocks = blocks_of(marks_named(["a/k", "b/k", *["c/k"] * 8, "d/k", *["e/k"] * 9]))
    assert [block.label for block in spaced(blocks, 5)] == ["a", "c", "e"]
    assert [block.label for block in spaced(blocks, 0.5)] == ["a", "b", "c", "d", "e"]


def test_the_start_that_all_names_share_is_taken_off():
    """Shared leading parts are said once; the last part always stays."""
    assert without_common_start(["a/b/c", "a/b/d"]) == ("a/b/", ["c", "d"])
    assert without_common_start(["a/b", "a/b"]) == ("a/", ["b", "b"])
    assert without_common_start(["a", "a/b"]) == ("", ["a", "a/b"])


@pytest.mark.parametrize(
    ("name", "shape", "group"),
    [
        ("dense/kernel", (3, 2), "weight"),
        ("dense/bias", (2,), "vector"),
        ("attention/query/bias", (4, 8), "vector"),
        ("norm/gamma", (1, 1, 4), "vector"),
        ("scalar", (), "vector"),
        ("embed/embeddings", (9, 2), "weight"),
    ],
)
def test_biases_are_told_from_weights(name, shape, group):
    """One axis or none is a bias or scale, and so is what is called one."""
    (mark,) = marks_of([summarise_array(name, "weight", np.ones(shape))])[0]
    assert mark.group == group
