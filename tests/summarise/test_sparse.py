import math
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwatch.summarise import summarise_array, summarise_rows
from gradwatch.summarise._array import CHUNK

TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
# Numbers whose sums are exact in float64, so that the order of adding cannot matter.
ELEMENT = st.sampled_from([0.0, 1.0, -1.0, -3.5, 6e4, 2**-30]) | st.floats(width=16)


def densify(indices, values, shape):
    """The dense array, one addition at a time, rounded to the type at the end."""
    dense = np.zeros(shape)
    with np.errstate(invalid="ignore", over="ignore"):
        for index, value in zip(indices, values, strict=True):
            dense[index] += value.astype(np.float64)
        return dense.astype(values.dtype)


def assert_same(sparse, dense):
    """Counts, ends and shares to the bit; sums to rounding."""
    for name in ("name", "kind", "shape", "dtype", "size", "missing"):
        assert getattr(sparse, name) == getattr(dense, name), name
    for name in ("min", "max", "zeros", "underflow", "nan", "posinf", "neginf"):
        value = pytest.approx(getattr(dense, name), rel=0, abs=0, nan_ok=True)
        assert getattr(sparse, name) == value, name
    for name in ("norm", "mean", "std", "mean_abs"):
        value = pytest.approx(getattr(dense, name), rel=1e-12, abs=1e-11, nan_ok=True)
        assert getattr(sparse, name) == value, name


@st.composite
def sparse_gradients(draw):
    height, width = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    count = draw(st.integers(0, 12))
    indices = draw(st.lists(st.integers(0, height - 1), min_size=count, max_size=count))
    size = count * width
    elements = draw(st.lists(ELEMENT, min_size=size, max_size=size))
    dtype = draw(st.sampled_from(TYPES))
    values = np.array(elements, np.float64).astype(dtype).reshape(count, width)
    return np.array(indices, np.int64), values, (height, width)


@given(sparse_gradients())
def test_a_sparse_gradient_has_the_row_of_the_dense_one(gradient):
    """Repeated indices, NaN, ∞, cancellation and untouched rows: all as if dense."""
    indices, values, shape = gradient
    row = summarise_rows("embed/embeddings", "weight", indices, values, shape)
    dense = densify(indices, values, shape)
    assert_same(row, summarise_array("embed/embeddings", "weight", dense))


def test_repeated_indices_add_up_before_they_are_measured():
    """The norm is that of the sums, which the norm of the values is not."""
    indices, values = np.array([3, 1, 3, 3]), np.array([[1.0], [4.0], [1.0], [1.0]])
    row = summarise_rows("a", "weight", indices, values, (10, 1))
    assert row.norm == 5.0
    assert row.norm != np.linalg.norm(values)
    assert (row.max, row.min, row.zeros, row.mean) == (4.0, 0.0, 0.8, 0.7)


def test_rows_that_cancel_are_exact_zeros():
    """Plus and minus the same row is a row of zeros, and is counted as one."""
    row = summarise_rows(
        "a", "weight", np.array([2, 2, 0]), np.array([[1.5], [-1.5], [2.0]]), (4, 1)
    )
    assert (row.norm, row.zeros) == (2.0, 0.75)


def test_sums_too_large_for_the_type_are_infinite():
    """60000 + 60000 is +∞ in the float16 gradient that the rows stand for."""
    values = np.array([[6e4, np.inf], [6e4, -np.inf]], np.float16)
    row = summarise_rows("a", "weight", np.array([1, 1]), values, (3, 2))
    assert (row.posinf, row.nan, row.neginf, row.norm) == (1, 1, 0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_any_numbers_are_added_up_to_rounding(seed):
    """Sums that are not exact agree with the slow ones to 14 digits."""
    random = np.random.default_rng(seed)
    indices = random.integers(0, 20, size=500)
    values = random.normal(size=(500, 7)) * 10.0 ** random.integers(-3, 3, (500, 1))
    row = summarise_rows("a", "weight", indices, values, (30, 7))
    dense = summarise_array("a", "weight", densify(indices, values, (30, 7)))
    for name in ("norm", "std", "min", "max", "mean_abs", "zeros"):
        assert getattr(row, name) == pytest.approx(getattr(dense, name), rel=1e-13)
    assert row.mean == pytest.approx(dense.mean, rel=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_many_repeated_rows_add_up_across_blocks(seed):
    """One index repeated through many blocks is summed once, whatever the order."""
    random = np.random.default_rng(seed)
    indices = random.choice([0, 0, 0, 5, 6, 9], size=37)
    values = random.normal(size=(37, CHUNK // 4 - 3)).astype(np.float32)
    shape = (11, values.shape[1])
    row = summarise_rows("a", "weight", indices, values, shape)
    assert_same(row, summarise_array("a", "weight", densify(indices, values, shape)))


def test_gradients_of_more_or_fewer_axes_work():
    """A vector of numbers and a stack of matrices are sparse along their first axis."""
    indices = np.array([4, 4, 2], np.int32)
    vector = np.array([1.0, 2.0, 4.0])
    assert summarise_rows("a", "weight", indices, vector, (6,)).norm == 5.0
    stack = np.ones((3, 2, 2), np.float32)
    row = summarise_rows("a", "weight", indices, stack, (6, 2, 2))
    assert_same(row, summarise_array("a", "weight", densify(indices, stack, (6, 2, 2))))


def test_no_rows_at_all_is_a_gradient_of_zeros():
    """An embedding that saw no id has a measured gradient: zero everywhere."""
    row = summarise_rows("a", "weight", np.array([]), np.zeros((0, 3)), (5, 3))
    assert (row.norm, row.std, row.min, row.max, row.zeros) == (0.0, 0.0, 0.0, 0.0, 1.0)
    empty = summarise_rows("a", "weight", np.array([], int), np.zeros((0, 3)), (0, 3))
    assert math.isnan(empty.norm)
    assert empty.size == 0


def test_tiny_rows_are_not_lost_beside_the_zeros():
    """The untouched rows have no say in the scale at which squares are taken."""
    row = summarise_rows("a", "weight", np.array([1]), np.array([[3e-300]]), (9, 1))
    assert row.norm == pytest.approx(3e-300, rel=1e-15, abs=0)


def test_the_dense_array_is_never_made():
    """A table of 64 GB with three touched rows is measured in less than 1 MiB."""
    tracemalloc.start()
    try:
        row = summarise_rows(
            "a", "weight", np.array([1, 7, 1]), np.ones((3, 16)), (500_000_000, 16)
        )
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert row.norm == pytest.approx(math.sqrt(16 * (4 + 1)))
    assert row.size == 8_000_000_000


@pytest.mark.parametrize(
    ("indices", "values", "shape", "message"),
    [
        ([0], [1.0], (), r"`shape` must have at least one axis"),
        ([[0]], [[1.0]], (3, 1), r"`indices` must be one axis of whole numbers"),
        ([0.5], [[1.0]], (3, 1), r"`indices` must be one axis .* dtype 'float64'"),
        (
            [0],
            [[1.0, 2.0]],
            (3, 1),
            r"`values` must hold one row .*: \(1, 1\)",
        ),
        ([0, 3], [[1.0], [1.0]], (3, 1), r"`indices` must lie between 0 and 2.*: 3,"),
        ([-1], [[1.0]], (3, 1), r"`indices` must lie between 0 and 2.*: -1,"),
        ([0], [[1j]], (3, 1), r"`values` must hold real numbers"),
    ],
)
def test_parts_that_do_not_fit_are_refused(indices, values, shape, message):
    """A wrong index, row or shape gets the rule, what was received and the way out."""
    with pytest.raises(ValueError, match=message):
        summarise_rows("a", "weight", np.array(indices), np.array(values), shape)
