"""What is packed for a browser comes out the same."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwatch.show._format import number
from gradwatch.show.charts import packed, plain
from gradwatch.show.charts._wire import decimals

from ..wire import from_decimals, unpacked


def test_arrays_and_facts_come_back():
    """Of every type, of any shape, aligned for the browser."""
    arrays = {
        "f4": np.array([[1.5, np.nan], [np.inf, -0.0]], np.float32),
        "f8": np.linspace(0, 1, 5),
        "u1": np.arange(7, dtype=np.uint8),
        "i4": np.arange(3, dtype=np.int32),
        "steps": np.array([2**40], np.int64),
        "none": np.empty((0, 4), np.float32),
    }
    data = packed({"step": 3, "name": "é<b>"}, arrays)
    facts, result = unpacked(data)
    assert facts == {"step": 3, "name": "é<b>"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(result[name], array)
        assert result[name].shape == array.shape
    assert (4 + int.from_bytes(data[:4], "little")) % 8 == 0


def test_nan_is_never_written_as_json():
    """A browser's parser would refuse the whole answer."""
    with pytest.raises(ValueError, match="JSON"):
        packed({"norm": math.nan}, {})
    assert plain({"a": [math.nan, -math.inf, 1.0]}) == {"a": ["nan", "-inf", 1.0]}


@given(st.lists(st.floats(width=32, allow_infinity=False), min_size=1, max_size=20))
def test_four_digits_are_those_that_would_be_shown(numbers):
    """Python's own formatting is the twin: the same digits, the same power."""
    array = np.array(numbers, np.float32)
    back = from_decimals(decimals(array))
    for was, now in zip(array.tolist(), back.tolist(), strict=True):
        if math.isnan(was):
            assert math.isnan(now)
        elif abs(was) < 1e-42:  # where a float32 has not four digits itself
            assert now == pytest.approx(was, abs=2e-45)
        else:
            # A tie may fall to either side, as the last bit of a product has it.
            assert now == pytest.approx(float(f"{was:.3e}"), rel=1.1e-3)
            if abs(was) > 3.402e38:
                assert abs(now) == np.float32(3.402e38)  # and not infinite
                continue
            rest = was * 10 ** (3 - math.floor(math.log10(abs(was)))) % 1
            if 9_999 < abs(was) < 100_000:
                continue  # shown with five digits: see below
            if abs(rest - 0.5) > 1e-6:
                assert f"{now:.3e}" == f"{was:.3e}"


@given(st.floats(9_000, 99_994, width=32) | st.floats(-99_994, -9_000, width=32))
def test_five_digits_are_kept_where_five_are_shown(was):
    """45,129 is not 45,130: a page must not say another number than its run."""
    [now] = from_decimals(decimals(np.array([was], np.float32))).tolist()
    assert number(now) == number(was)


def test_few_digits_are_for_numbers_only():
    """Steps and flags stay exact."""
    values = np.array([0.123456])
    steps = np.array([123_456_789], np.int64)
    _, result = unpacked(
        packed({}, {"values": values, "steps": steps}, few_digits=True)
    )
    assert result["values"].tolist() == [np.float32(0.1235)]
    assert result["steps"].tolist() == [123_456_789]


@pytest.mark.parametrize("odd", [1e300, -1e39, 1e-45, 1e-200])
def test_numbers_that_a_float32_cannot_hold_are_sent_in_full(odd):
    """They are neither cut off nor made zero; NaN and zeros stay what they are."""
    values = np.array([0.123456, odd, 0.0, math.nan])
    _, result = unpacked(packed({}, {"values": values}, few_digits=True))
    np.testing.assert_array_equal(result["values"], values)
