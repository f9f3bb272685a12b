"""The sums that a step sends, for any numbers at all."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some
from keras import ops

from gradwatch.backends import current
from gradwatch.summarise import COLUMNS, finish, measure, norms, squares
from gradwatch.summarise._exact import _careful

from . import twins

MEASURED = COLUMNS[: COLUMNS.index("weight_norm")]
# Compilers set what is smaller to zero, as the hardware would.
NORMAL = st.floats(width=32, allow_subnormal=False)
# The same shapes each time: JAX compiles for each anew.
PAIRS = st.tuples(
    some.arrays("f4", (3, 5), elements=NORMAL), some.arrays("f4", 7, elements=NORMAL)
)


def rows(arrays, dtype="float32"):
    """Columns by name for each of the arrays."""
    tensors = [ops.cast(ops.convert_to_tensor(a), dtype) for a in arrays]
    sums, _ = measure(tensors, current().watching.kernels)
    for row in finish(np.asarray(ops.convert_to_numpy(sums))):
        yield dict(zip(COLUMNS, row, strict=True))


def check(found, array, rtol=1e-5):
    expected = twins.columns(array)
    top = max(abs(expected["min"]), abs(expected["max"]))
    top = 0.0 if math.isnan(top) else top
    # Where the norm is no float32, all are divided, and the smallest may be lost.
    divided = expected["norm"] > float(np.finfo("f4").max)
    for column in MEASURED:
        atol = 1e-37 * (top if divided else 1.0)
        if column in ("mean", "std"):  # is as exact as what was added up
            atol += 1e-6 * top
        np.testing.assert_allclose(
            found[column], expected[column], rtol, atol, err_msg=column
        )


@settings(max_examples=60)
@given(pair=PAIRS)
def test_any_numbers_are_summed_up_right(pair):
    """From 1e-38 to 3e38, with NaN and infinities anywhere, alone or together."""
    for found, array in zip(rows(pair), pair, strict=True):
        check(found, array)


@settings(max_examples=60)
@given(pair=PAIRS)
def test_norms_neither_overflow_nor_underflow(pair):
    """What is not finite makes a norm NaN or infinite; nothing else does."""
    sums = np.asarray(ops.convert_to_numpy(squares(pair, current().watching.kernels)))
    for found, array in zip(norms(sums), pair, strict=True):
        if np.isfinite(array).all():
            np.testing.assert_allclose(found, twins.norm(array), 1e-5, 1e-37)
        else:
            assert not math.isfinite(found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_measured_as_the_numbers_it_holds(dtype):
    """65504 squared is no float16, and neither is the sum of a few of them."""
    array = np.array([65504, -65504, 6e-8, 0, 1, -2, 65504], "float32")
    (found,) = rows([array], dtype)
    held = ops.convert_to_numpy(ops.cast(ops.cast(array, dtype), "float32"))
    check(found, np.asarray(held))


def test_subnormal_numbers_are_small_and_nothing_else():
    """They may count as zeros, where the hardware makes them that; never as NaN."""
    array = np.full(7, 1e-40, "float32")
    (found,) = rows([array])
    assert found["nan"] == found["posinf"] == found["neginf"] == 0
    assert 0 <= found["norm"] <= twins.norm(array) * 1.001
    assert found["zeros"] + found["underflow"] == pytest.approx(1.0)


@pytest.mark.parametrize("shape", [(), (1,), (63,), (64,), (65,), (1, 1, 3)])
def test_any_shape_is_measured(shape):
    """Scalars and ends of lines included; neighbours do not meet."""
    array = np.linspace(1, 2, math.prod(shape)).reshape(shape).astype("float32")
    other = np.full(3, np.nan, "float32")
    first, middle, last = rows([other, array, other])
    check(middle, array)
    assert first["nan"] == last["nan"] == 3


def test_constant_numbers_have_no_spread():
    """Not even the rounding of their mean."""
    (found,) = rows([np.full(1000, 0.1, "float32")])
    assert found["std"] == 0.0
    check(found, np.full(1000, 0.1, "float32"))


def test_many_equal_squares_are_added_without_loss():
    """The norm of a million ones is a thousand."""
    (found,) = rows([np.ones((1000, 1000), "float32")])
    assert found["norm"] == pytest.approx(1000.0, rel=1e-6)
    assert found["mean"] == pytest.approx(1.0, rel=1e-6)
    assert found["std"] == 0.0


@pytest.mark.parametrize("odd", [(), (np.nan, np.inf, -np.inf, -np.inf)])
def test_pieces_of_any_size_add_up(odd):
    """As under XLA: pieces of 1e30 and more, of 1e-30 and of zeros, and a last one."""
    random = np.random.default_rng(0)
    array = random.normal(size=64 * 300 + 7).astype("float32")
    array[:9000] *= np.float32(1e-30)
    array[9000:9900] = 0.0
    array[12_000:] *= np.float32(1e30)
    array[15_000:] *= np.float32(8)
    array[[5, 9500, 12_100, -1][: len(odd)]] = odd
    in_pieces = SimpleNamespace(can_branch=False)
    found = _careful(ops.convert_to_tensor(array), in_pieces)
    low, high, total, square, exponent, *counts = ops.convert_to_numpy(found).tolist()
    finite = array[np.isfinite(array)].astype("float64")
    assert (low, high) == (finite.min(), finite.max())
    assert np.ldexp(total, int(exponent)) == pytest.approx(finite.sum(), rel=1e-4)
    norm = math.sqrt(square) * 2.0**exponent
    assert norm == pytest.approx(np.linalg.norm(finite), rel=1e-5)
    assert counts == [odd.count(np.nan) if odd else 0, len(odd) // 4, len(odd) // 2]
