"""What an autopsy found can be printed, kept and read again."""

import json

import numpy as np
import pytest

import gradwatch as gw
from gradwatch.diagnose import Autopsy
from gradwatch.diagnose._autopsy._operations import OperationLog

INPUT = {"shape": [2], "dtype": "float32", "zeros": 1, "negative": 0, "nonfinite": 0}
FOUND = Autopsy(
    True,
    "activation",
    "block/fault",
    "forward",
    "log of zero",
    True,
    {
        "nan": 1_200,
        "posinf": 0,
        "neginf": 3,
        "size": 5_000,
        "first_index": [1, 2],
        "operation": "log",
        "inputs": [INPUT | {"min": 0.0, "max": 4.0}],
    },
    "Add something.",
    ("A remark.",),
)


def test_it_goes_through_json_and_back():
    """Nothing is lost."""
    text = json.dumps(FOUND.to_dict(), allow_nan=False)
    assert Autopsy.from_dict(json.loads(text)) == FOUND


def test_a_later_version_may_say_more():
    """What is not known is left out; what is missing has its default."""
    read = Autopsy.from_dict({"found": False, "mood": "good"})
    assert read == Autopsy(False)


@pytest.mark.parametrize("wrong", [None, {}, "found", {"where": "input"}])
def test_something_else_is_refused(wrong):
    """It says what it needs."""
    with pytest.raises(gw.GradwatchError, match="what `Autopsy.to_dict` gives"):
        Autopsy.from_dict(wrong)


def test_it_prints_as_a_paragraph():
    """Where, how many, why, what went in, what to try."""
    assert str(FOUND) == (
        "The first non-finite value is in the forward pass, at `block/fault` (1,200 "
        "NaN, 3 -inf of 5,000 numbers, the first at [1, 2]).\n"
        "Cause: log of zero (`log` got 0 to 4, 1 zero).\n"
        "Try first: Add something.\n"
        "A remark."
    )


def test_it_prints_as_one_line():
    """Likely, unless it is sure."""
    assert FOUND.one_line() == "activation `block/fault`: log of zero"
    unsure = Autopsy.from_dict(FOUND.to_dict() | {"sure": False})
    assert unsure.one_line() == "activation `block/fault`: likely log of zero"
    assert Autopsy(False).one_line() == "Nothing is non-finite."
    assert str(Autopsy(False)) == "Nothing is non-finite in this pass."


def test_memory_that_nobody_has_written_is_not_to_blame():
    """torch takes it for a dropout, and whatever lay there before is in it."""
    seen = OperationLog()
    ones, left = np.ones(2, "float32"), np.full(2, np.nan, "float32")
    seen("empty_like", [ones], [left])
    assert seen.forward() is None
    assert seen.backward() is None
