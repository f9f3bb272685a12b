import json
import math
import tracemalloc
from dataclasses import FrozenInstanceError, fields
from decimal import Context, Decimal, localcontext

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gradwatch.summarise import Row, summarise_array
from gradwatch.summarise._array import CHUNK

NUMBERS = ("norm", "mean", "std", "min", "max", "mean_abs")
SHARES = ("zeros", "underflow")
COUNTS = ("nan", "posinf", "neginf")
EXACT = Context(prec=60, Emin=-999_999, Emax=999_999)


def twin(array):
    """Every number of a row, from its definition: loops over 60-digit decimals."""
    elements = [float(element) for element in array.reshape(-1)]
    finite = [Decimal(x) for x in elements if x - x == 0]
    count, size = len(finite), len(elements)
    with np.errstate(over="ignore"):
        rounded = [np.float16(x) for x in elements]
    pairs = list(zip(elements, rounded, strict=True))
    row = {
        "nan": sum(1 for x in elements if math.isnan(x)),
        "posinf": sum(1 for x in elements if x == math.inf),
        "neginf": sum(1 for x in elements if x == -math.inf),
        "zeros": sum(1 for x in elements if x == 0) / size,
        "underflow": sum(1 for x, half in pairs if x != 0 and half == 0) / size,
    }
    with localcontext(EXACT):
        mean = sum(finite) / count
        row["norm"] = float(sum(x * x for x in finite).sqrt())
        row["mean"] = float(mean)
        row["std"] = float((sum((x - mean) ** 2 for x in finite) / count).sqrt())
        row["mean_abs"] = float(sum(abs(x) for x in finite) / count)
    row["min"], row["max"] = float(min(finite)), float(max(finite))
    return row


def assert_row_is(row, expected):
    """Rounding errors of sums are small beside the largest element, not the sum."""
    largest = max(abs(expected["min"]), abs(expected["max"]))
    for name in COUNTS + SHARES + ("min", "max"):
        assert getattr(row, name) == expected[name], name
    for name in ("norm", "mean_abs"):
        assert getattr(row, name) == pytest.approx(expected[name], rel=1e-13, abs=0)
    for name in ("mean", "std"):
        assert abs(getattr(row, name) - expected[name]) <= 1e-14 * largest, name


SPECIAL = [0.0, -0.0, 1.0, 2.0**-24, 2.0**-25, 2.0**-26, -(2.0**-25), 1e-30, 65520.0]
REAL = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
ANY = st.floats(width=32, allow_subnormal=False) | st.sampled_from(SPECIAL)
TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


@given(st.lists(ANY, min_size=1, max_size=40), st.sampled_from(TYPES))
def test_every_number_equals_its_slow_twin(elements, dtype):
    """Each number is its definition, in every float type, NaN and ∞ among them."""
    with np.errstate(over="ignore", under="ignore"):
        array = np.array(elements, np.float64).astype(dtype)
    assume(np.isfinite(array.astype(np.float64)).any())
    row = summarise_array("a/b", "weight", array)
    assert_row_is(row, twin(array))
    assert (row.name, row.kind, row.missing) == ("a/b", "weight", None)
    assert (row.shape, row.size) == ((len(elements),), len(elements))
    assert row.dtype == np.dtype(dtype).name


@given(st.lists(REAL, min_size=1, max_size=40))
def test_float64_of_any_magnitude_equals_its_slow_twin(elements):
    """Squares that overflow or vanish in float64 do no harm to the norm."""
    expected = twin(np.array(elements))
    assume(max(map(abs, elements)) > 1e-290 or not any(elements))
    assert_row_is(summarise_array("a", "weight", np.array(elements)), expected)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 2.0**-1060, 1.0])
def test_squares_neither_overflow_nor_vanish(scale):
    """The norm of (3, 4) is 5 at both ends of the float64 range."""
    row = summarise_array("a", "weight", np.array([3 * scale, -4 * scale, 0.0]))
    assert row.norm == pytest.approx(5 * scale, rel=1e-9, abs=0)
    assert row.std == pytest.approx(math.sqrt(74 / 9) * scale, rel=1e-9, abs=0)


def test_a_norm_larger_than_any_float_is_infinite():
    """Finite elements whose norm is no float64 give +∞, and no element is blamed."""
    row = summarise_array("a", "weight", np.full(9, 1.5e308))
    assert row.norm == math.inf
    assert (row.mean, row.std, row.nonfinite) == (1.5e308, 0.0, 0)


@given(
    st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=30),
    st.integers(-700, 700),
)
def test_a_power_of_two_scales_every_number_exactly(elements, power):
    """Scaling the array by 2ᵏ scales norm, mean, std, … by 2ᵏ, to the last bit."""
    array = np.array([x if abs(x) > 1e-30 else 0.0 for x in elements])
    factor = 2.0**power
    row = summarise_array("a", "weight", array)
    scaled = summarise_array("a", "weight", array * factor)
    assert [getattr(scaled, name) for name in NUMBERS] == [
        getattr(row, name) * factor for name in NUMBERS
    ]


@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=30),
    st.lists(st.sampled_from([math.nan, math.inf, -math.inf]), max_size=8),
    st.randoms(),
)
def test_nan_and_infinity_are_counted_and_change_no_other_number(finite, extra, random):
    """The finite elements are measured as if NaN and ∞ were not there."""
    mixed = finite + extra
    random.shuffle(mixed)
    row = summarise_array("a", "weight", np.array(mixed))
    rest = np.array([x for x in mixed if math.isfinite(x)])
    clean = summarise_array("a", "weight", rest)
    assert row.nan == sum(map(math.isnan, extra))
    assert row.posinf == extra.count(math.inf)
    assert row.neginf == extra.count(-math.inf)
    assert row.nonfinite == len(extra)
    assert (row.min, row.max) == (clean.min, clean.max)
    for name in ("norm", "mean", "std", "mean_abs"):
        value = pytest.approx(getattr(clean, name), rel=1e-13, abs=1e-14)
        assert getattr(row, name) == value
    for name in SHARES:
        share = getattr(clean, name) * len(finite) / len(mixed)
        assert getattr(row, name) == pytest.approx(share)


def test_no_finite_element_is_measured_as_nan():
    """An array of nothing but NaN and ∞ has NaN for its numbers, and exact counts."""
    row = summarise_array("a", "weight", np.array([np.nan, np.inf, np.inf, -np.inf]))
    assert all(math.isnan(getattr(row, name)) for name in NUMBERS)
    assert (row.nan, row.posinf, row.neginf, row.nonfinite) == (1, 2, 1, 4)
    assert (row.zeros, row.underflow, row.missing) == (0.0, 0.0, None)


def test_an_empty_array_is_measured_as_nan():
    """Nothing has no norm, no mean and no share of zeros: NaN, and counts of 0."""
    row = summarise_array("a", "activation", np.zeros((0, 4), np.float32))
    assert all(math.isnan(getattr(row, name)) for name in NUMBERS + SHARES)
    assert (row.nan, row.posinf, row.neginf) == (0, 0, 0)
    assert (row.size, row.shape) == (0, (0, 4))


def test_many_chunks_add_up_to_the_whole():
    """Chunks of different size, mean and content give the numbers of one array."""
    array = np.linspace(-3.0, 50.0, 3 * CHUNK + 5)
    array[CHUNK : 2 * CHUNK] = np.nan
    array[-7:] = [0, 0, 1e-9, -1e-9, np.inf, -np.inf, -np.inf]
    row = summarise_array("a", "weight", array)
    finite = array[np.isfinite(array)].tolist()
    mean = math.fsum(finite) / len(finite)
    squares = math.fsum((x - mean) ** 2 for x in finite)
    assert row.mean == pytest.approx(mean, rel=1e-14)
    assert row.std == pytest.approx(math.sqrt(squares / len(finite)), rel=1e-13)
    norm = math.sqrt(math.fsum(x * x for x in finite))
    assert row.norm == pytest.approx(norm, rel=1e-13)
    absolute = math.fsum(map(abs, finite)) / len(finite)
    assert row.mean_abs == pytest.approx(absolute, rel=1e-13)
    assert (row.min, row.max) == (min(finite), max(finite))
    assert (row.nan, row.posinf, row.neginf) == (CHUNK, 1, 2)
    assert row.zeros * row.size == pytest.approx(2)
    assert row.underflow * row.size == pytest.approx(2)


@pytest.mark.parametrize("small", [1e-300, 1.0])
def test_a_chunk_of_another_magnitude_does_not_spoil_the_others(small):
    """A chunk of zeros, a small and a large one each count at their own scale."""
    array = np.zeros(3 * CHUNK)
    array[CHUNK : CHUNK + 4] = small
    norm = summarise_array("a", "weight", array).norm
    assert norm == pytest.approx(2 * small, rel=1e-15, abs=0)
    array[-4:] = 1e250
    assert summarise_array("a", "weight", array).norm == pytest.approx(2e250, rel=1e-15)


@pytest.mark.parametrize("power", [-900, -402, -400, 0, 399, 900])
def test_chunks_scaled_by_different_powers_add_up(power):
    """Two chunks, 3 and -4 times 2ᵏ, each scaled by itself: the norm is 5 times 2ᵏ."""
    array = np.zeros(2 * CHUNK)
    array[0], array[-1] = math.ldexp(3, power), math.ldexp(-4, power)
    row = summarise_array("a", "weight", array)
    assert row.norm == math.ldexp(5, power)
    assert row.mean == math.ldexp(-1, power) / array.size
    assert row.mean_abs == math.ldexp(7, power) / array.size
    spread = math.sqrt(25 / array.size - 1 / array.size**2)
    assert row.std == pytest.approx(math.ldexp(spread, power), rel=1e-14, abs=0)


def test_a_constant_has_no_spread():
    """Rounding in the mean never shows up as a standard deviation."""
    for value in (0.1, -1e-7, 3e33, 5e-324, 0.0):
        row = summarise_array("a", "weight", np.full(CHUNK + 333, value))
        assert (row.std, row.mean, row.mean_abs) == (0.0, value, abs(value))


def test_a_small_spread_beside_a_large_mean_keeps_its_digits():
    """The standard deviation is taken about the mean, not from sums of squares."""
    array = np.array([1e9, 1e9 + 1] * CHUNK)
    assert summarise_array("a", "weight", array).std == pytest.approx(0.5, rel=1e-9)


def test_underflow_counts_what_float16_rounds_to_zero():
    """2⁻²⁵ is half the smallest float16: it rounds to zero, the next float does not."""
    edge = 2.0**-25
    array = np.array([edge, np.nextafter(edge, 1), -edge, 1e-300, 0.0, -0.0, 1.0, 1.0])
    assert [bool(np.float16(x) == 0) for x in array[:2]] == [True, False]
    row = summarise_array("a", "weight", array)
    assert (row.underflow, row.zeros) == (3 / 8, 2 / 8)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.bool_])
def test_whole_numbers_are_measured_too(dtype):
    """Integers and truth values go through the same sums, without wrapping round."""
    array = np.array([[1, 0], [1, 1]], dtype) * np.array(1, dtype)
    row = summarise_array("a", "input", array)
    assert (row.mean, row.max, row.zeros) == (0.75, 1.0, 0.25)
    assert (row.dtype, row.shape) == (np.dtype(dtype).name, (2, 2))
    assert row.norm == math.sqrt(3)


def test_the_most_negative_integer_keeps_its_magnitude():
    """|-128| is no int8: magnitudes are taken after the change to float64."""
    row = summarise_array("a", "input", np.array([-128, -128], np.int8))
    assert (row.mean_abs, row.min) == (128.0, -128.0)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[:, ::-3],
        np.asfortranarray,
        lambda a: np.broadcast_to(a[:1], (4, *a.shape[1:])),
        lambda a: a[0, 0],
    ],
)
def test_memory_order_does_not_matter(view):
    """Transposed, strided, repeated and 0-d views are read right, and only read."""
    array = np.random.default_rng(1).normal(size=(6, 700)).astype(np.float32)
    before = array.copy()
    view = np.asarray(view(array))
    row = summarise_array("a", "weight", view)
    copy = summarise_array("a", "weight", np.ascontiguousarray(view))
    assert row.shape == view.shape
    for name in NUMBERS:
        assert getattr(row, name) == pytest.approx(getattr(copy, name), rel=1e-12)
    assert np.array_equal(array, before)


def test_memory_stays_bounded():
    """A 16 MiB array is measured in less than 4 MiB: it is never copied whole."""
    array = np.ones((1 << 11, 1 << 11), np.float32)[:, ::-1].T
    tracemalloc.start()
    try:
        summarise_array("a", "weight", array)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("array", [np.array([1j]), np.array(["a"]), np.array([None])])
def test_what_is_not_a_real_number_is_refused(array):
    """Complex numbers, text and objects get the rule, the dtype and the way out."""
    with pytest.raises(ValueError, match=r"`array` must hold real numbers. Received"):
        summarise_array("a", "weight", array)


def test_an_absent_gradient_has_no_number_at_all():
    """Not measured is `None` in every number, never 0, and the reason is kept."""
    row = Row.absent("a/b", "weight", (2, 3), "float16", "the layer is frozen")
    assert all(getattr(row, name) is None for name in NUMBERS + SHARES + COUNTS)
    assert row.nonfinite is None
    assert (row.size, row.shape, row.dtype) == (6, (2, 3), "float16")
    assert row.missing == "the layer is frozen"


def test_a_row_as_a_dict_survives_json():
    """`to_dict` has every field, takes a trip through JSON, and keeps None and NaN."""
    row = summarise_array("a", "weight", np.array([[1.0, -2.0, np.nan]], np.float32))
    record = row.to_dict()
    assert list(record) == [field.name for field in fields(Row)]
    assert json.loads(json.dumps(record)) == record
    assert record["shape"] == [1, 3]
    assert record["norm"] == math.sqrt(5)
    absent = Row.absent("a", "weight", (), "float32", "why").to_dict()
    assert absent["norm"] is None
    empty = summarise_array("a", "weight", np.zeros(0)).to_dict()
    assert math.isnan(empty["norm"])


def test_a_row_does_not_change():
    """Rows are values: nobody downstream can alter a number."""
    row = summarise_array("a", "weight", np.ones(3))
    with pytest.raises(FrozenInstanceError, match="norm"):
        row.norm = 0.0
