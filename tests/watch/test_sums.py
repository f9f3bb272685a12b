"""The rows that a step sends, measured both ways, for any numbers at all."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as some
from keras import ops

from gradwatch.backends import current
from gradwatch.native import library
from gradwatch.summarise import COLUMNS, Lean, finished

from . import twins
from .models import single

MEASURED = COLUMNS[: COLUMNS.index("weight_norm")]
WAYS = ("native", "lean") if library() is not None else ("lean",)
# Compilers set what is smaller to zero, as the hardware would.
NORMAL = st.floats(width=32, allow_subnormal=False)
# The same shapes each time: JAX compiles for each anew.
PAIRS = st.tuples(
    some.arrays("f4", (3, 5), elements=NORMAL), some.arrays("f4", 7, elements=NORMAL)
)


@pytest.fixture(scope="module")
def stream():
    return current().watching.stream(single())


def sweep(way, stream):
    return Lean(stream.kernels) if way == "lean" else stream.native


def rows(way, stream, arrays, dtype="float32"):
    """Columns by name for each of the arrays."""
    tensors = [ops.cast(ops.convert_to_tensor(a), dtype) for a in arrays]
    parts = sweep(way, stream).measure(tensors, 1)[0]
    for row in finished(stream.arrays({"rows": parts["rows"]}))["rows"]:
        yield dict(zip(MEASURED, row, strict=True))


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


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60)
@given(pair=PAIRS)
def test_any_numbers_are_summed_up_right(stream, way, pair):
    """From 1e-38 to 3e38, with NaN and infinities anywhere, alone or together."""
    for found, array in zip(rows(way, stream, pair), pair, strict=True):
        check(found, array)


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60)
@given(pair=PAIRS)
def test_norms_neither_overflow_nor_underflow(stream, way, pair):
    """What is not finite makes a norm NaN or infinite; nothing else does."""
    tensors = [ops.convert_to_tensor(array) for array in pair]
    sent = stream.arrays({"applied": sweep(way, stream).norms(tensors, 1)})
    for found, array in zip(finished(sent)["applied"], pair, strict=True):
        if np.isfinite(array).all():
            np.testing.assert_allclose(found, twins.norm(array), 1e-5, 1e-37)
        else:
            assert not math.isfinite(found)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_measured_as_the_numbers_it_holds(stream, way, dtype):
    """65504 squared is no float16, and neither is the sum of a few of them."""
    array = np.array([65504, -65504, 6e-8, 0, 1, -2, 65504], "float32")
    (found,) = rows(way, stream, [array], dtype)
    held = ops.convert_to_numpy(ops.cast(ops.cast(array, dtype), "float32"))
    check(found, np.asarray(held))


@pytest.mark.parametrize("way", WAYS)
def test_subnormal_numbers_are_small_and_nothing_else(stream, way):
    """They may count as zeros, where the hardware makes them that; never as NaN."""
    array = np.full(7, 1e-40, "float32")
    (found,) = rows(way, stream, [array])
    assert found["nan"] == found["posinf"] == found["neginf"] == 0
    assert 0 <= found["norm"] <= twins.norm(array) * 1.001
    assert found["zeros"] + found["underflow"] == pytest.approx(1.0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(), (1,), (63,), (64,), (65,), (1, 1, 3)])
def test_any_shape_is_measured(stream, way, shape):
    """Scalars and ends of lines included; neighbours do not meet."""
    array = np.linspace(1, 2, math.prod(shape)).reshape(shape).astype("float32")
    other = np.full(3, np.nan, "float32")
    first, middle, last = rows(way, stream, [other, array, other])
    check(middle, array)
    assert first["nan"] == last["nan"] == 3


@pytest.mark.parametrize("way", WAYS)
def test_constant_numbers_have_no_spread(stream, way):
    """Not even the rounding of their mean."""
    (found,) = rows(way, stream, [np.full(1000, 0.1, "float32")])
    assert found["std"] == 0.0
    check(found, np.full(1000, 0.1, "float32"))


@pytest.mark.parametrize("way", WAYS)
def test_many_equal_squares_are_added_without_loss(stream, way):
    """The norm of a million ones is a thousand."""
    (found,) = rows(way, stream, [np.ones((1000, 1000), "float32")])
    assert found["norm"] == pytest.approx(1000.0, rel=1e-6)
    assert found["mean"] == pytest.approx(1.0, rel=1e-6)
    assert found["std"] == 0.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("odd", [(), (np.nan, np.inf, -np.inf, -np.inf)])
def test_parts_of_any_size_add_up(stream, way, odd):
    """Numbers of 1e30 and more, of 1e-30 and zeros in one large tensor."""
    random = np.random.default_rng(0)
    array = random.normal(size=64 * 300 + 7).astype("float32")
    array[:9000] *= np.float32(1e-30)
    array[9000:9900] = 0.0
    array[12_000:] *= np.float32(1e30)
    array[15_000:] *= np.float32(8)
    array[[5, 9500, 12_100, -1][: len(odd)]] = odd
    (found,) = rows(way, stream, [array])
    finite = array[np.isfinite(array)].astype("float64")
    assert found["norm"] == pytest.approx(np.linalg.norm(finite), rel=1e-5)
    counts = [found[name] for name in ("nan", "posinf", "neginf")]
    assert counts == [len(odd) // 4, len(odd) // 4, len(odd) // 2]
    if way == "native":  # the lean way takes the rest from a sample
        check(found, array, rtol=1e-4)
