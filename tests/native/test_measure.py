"""The sweep gives the numbers of its exact twin, with every build."""

import ctypes
import ctypes.util
import platform
import sys
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from tests.native import twin

from gradwatch.native import TensorLayout

DTYPES = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}
COLUMNS = ("norm", "mean", "std", "min", "max", "mean_abs", "zeros", "underflow")
SIZES = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 255, 256, 257, 1023, 1025)
SIZES += (2047, 2048, 2049, 4095, 4096, 4097, 6143, 6145)


def measure(build, array, scale=1.0, histograms=False):
    layout = TensorLayout([(array.size, array.dtype.name)], build)
    rows, counts = layout.measure([array.ctypes.data], scale, histograms)
    return rows[0], None if counts is None else counts[0]


def check(build, array, expected, scale=1.0):
    """float32 lanes: within 1e-6 of the magnitudes; double: 1e-12; counts: exact."""
    actual = measure(build, array, scale)[0]
    small = array.size < 2048 or array.dtype == np.float64
    rtol = 1e-12 if small else 1e-6
    norm, mean, std, low, high, mean_abs = expected[:6]
    at = f"{build.name}, {array.dtype}, {array.size} elements, scale {scale}"
    np.testing.assert_array_equal(
        actual[[3, 4, *range(6, 11)]], [low, high, *expected[6:]], at
    )
    tiny = 5e-324  # The last digit of a denormal is no relative error.
    for index, value, slack in (
        (0, norm, rtol),
        (5, mean_abs, rtol),
        (2, std, 5 * rtol),
    ):
        np.testing.assert_allclose(actual[index], value, slack, tiny, err_msg=at)
    bound = rtol * abs(mean_abs) + tiny
    np.testing.assert_allclose(actual[1], mean, 0, bound, err_msg=at)


def cast(values, dtype):
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(DTYPES[dtype])


def adversarial(dtype):
    """Arrays that break a sweep which is not careful, by name."""
    rng = np.random.default_rng(7)
    size = 2 * 2048 + 77
    limits = ml_dtypes.finfo(DTYPES[dtype])
    normal = rng.normal(size=size)
    biggest, smallest = float(limits.max), float(limits.smallest_subnormal)
    with_specials = normal.copy()
    with_specials[[0, 5, 2047, 2048]] = np.nan
    with_specials[[1, 4000, size - 1]] = np.inf
    with_specials[[2, 3, 2100]] = -np.inf
    outlier = np.full(size, 1e-3)
    outlier[3000] = biggest / 4
    sparse = np.where(rng.random(size) < 0.6, 0.0, normal)
    return {
        "normal": normal,
        "small": normal * 1e-7,
        "around the float16 underflow": normal * 2.0**-25,
        "largest": np.sign(normal) * biggest * rng.uniform(0.5, 1, size),
        "denormal": smallest * rng.integers(-9, 10, size),
        "one denormal": np.r_[np.zeros(size - 1), smallest],
        "vanishing squares": normal * float(limits.smallest_normal) * 1e3,
        "large mean": 1e4 + normal,
        "constant": np.full(size, 0.1),
        "constant and large": np.full(size, -biggest),
        "alternating": 1e3 * (-1.0) ** np.arange(size) + normal,
        "zeros of both signs": 0.0 * normal,
        "sparse": sparse,
        "wide": np.sign(normal) * 2.0 ** rng.uniform(-14, 15, size),
        "outlier": outlier,
        "all NaN": np.full(size, np.nan),
        "all infinite": np.r_[np.full(5, np.inf), np.full(size - 5, -np.inf)],
        "specials": with_specials,
        "a block of zeros among tiny": np.r_[np.zeros(2048), normal * smallest * 8],
    }


@pytest.mark.parametrize("name", adversarial("float32"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_adversarial_arrays_are_measured_right(builds, dtype, name):
    """Range, cancellation, NaN, infinities, zeros of both signs, denormals."""
    array = cast(adversarial(dtype)[name], dtype)
    expected = twin.row(array)
    for build in builds:
        check(build, array, expected)


@pytest.mark.parametrize("power", [300, 200, 150, -150, -200, -300, -310])
def test_float64_neither_overflows_nor_underflows(builds, power):
    """Squares of 1e300 and of 1e-310 are no float64, and the norm is right to 1e-12."""
    normal = np.random.default_rng(1).normal(size=5000)
    with np.errstate(under="ignore"):
        tensors = [normal * 10.0**power, np.r_[normal * 10.0**power, normal[:2048]]]
    for array in tensors:
        expected = twin.row(array)
        for build in builds:
            check(build, array, expected)


@pytest.mark.parametrize("scale", [2.0**15, 2.0**-30, 3.7, 1e-30, 1e30])
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_are_of_the_tensor_divided_by_the_scale(builds, dtype, scale):
    """Norms and extremes are divided; the underflow is that of the quotient."""
    normal = np.random.default_rng(2).normal(size=2 * 2048 + 5)
    array = cast(np.r_[normal, normal * 1e-4, np.nan, 0.0, scale * 2.0**-25], dtype)
    expected = twin.row(array, scale)
    for build in builds:
        check(build, array, expected, scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_size_and_every_address_is_measured_right(builds, dtype):
    """Sizes around those of lanes and blocks; addresses that are not aligned."""
    rng = np.random.default_rng(3)
    item = np.dtype(DTYPES[dtype]).itemsize
    for size in SIZES:
        array = cast(rng.normal(size=size), dtype)
        expected = twin.row(array)
        for build in builds:
            check(build, array, expected)
            aligned = measure(build, array, histograms=True)
            memory = np.zeros(array.nbytes + 8, np.uint8)
            for offset in {1, item // 2, 3}:
                memory[offset : offset + array.nbytes] = array.view(np.uint8)
                layout = TensorLayout([(size, dtype)], build)
                odd = layout.measure([memory.ctypes.data + offset], 1.0, True)
                np.testing.assert_array_equal(odd[0][0], aligned[0])
                np.testing.assert_array_equal(odd[1][0], aligned[1])


@pytest.mark.parametrize("scale", [1.0, 1.1, 3.7, 0.3, 5e-3, 7e11])
def test_the_bound_of_the_underflow_is_exact(builds, scale):
    """The float32 next to it on either side are told apart in whole blocks, too."""
    at = np.float32(2.0**-25 * scale)
    near = [np.nextafter(at, np.float32(0)), at, np.nextafter(at, np.float32(np.inf))]
    array = np.tile(np.array([*near, -at], np.float32), 1024)
    expected = twin.row(array, scale)
    for build in builds:
        assert measure(build, array, scale)[0][7] == expected[7]


def test_one_outlier_in_ten_million_is_seen(builds):
    """Extremes and counts are exact and sums hold 1e-6 in a large tensor, too."""
    array = np.full(10_000_000, np.float32(0.1))
    array[[1_234_567, 7_654_321]] = 1e9, 0.0
    wide = array.astype(np.longdouble)
    for build in builds:
        row = measure(build, array)[0]
        assert (row[3], row[4], row[6]) == (0.0, 1e9, 1e-7)
        np.testing.assert_allclose(row[0], float(np.sqrt((wide**2).sum())), 1e-6)
        np.testing.assert_allclose(row[1], float(wide.mean()), 1e-6)
        np.testing.assert_allclose(row[2], float(wide.std()), 1e-6)


def test_the_spread_keeps_its_digits_beside_a_large_mean(builds):
    """1e4 + N(0, 1) in float32: the difference of two squares would lose all of it."""
    array = (1e4 + np.random.default_rng(4).normal(size=300_000)).astype(np.float32)
    exact = array.astype(np.float64).std()
    for build in builds:
        np.testing.assert_allclose(measure(build, array)[0][2], exact, 1e-9)


@pytest.mark.parametrize("scale", [1.0, 2.0**15, 2.0**-100, 3.7, 1e-30])
@pytest.mark.parametrize("dtype", DTYPES)
def test_histograms_count_exponents(builds, dtype, scale):
    """As `math.frexp` of the exact quotient does, of all elements or of the sample."""
    rng = np.random.default_rng(5)
    for size in (0, 1, 1000, 4099, 65536, 65537, 70_001):
        values = rng.normal(size=size) * 2.0 ** rng.uniform(-50, 30, size)
        values[::7] = 0.0
        values[1::11] = [
            (np.nan, np.inf, -np.inf, 1.0)[i % 4] for i in range(len(values[1::11]))
        ]
        values[2::13] = float(ml_dtypes.finfo(DTYPES[dtype]).smallest_subnormal)
        array = cast(values, dtype)
        expected = twin.histogram(array, scale)
        for build in builds:
            np.testing.assert_array_equal(
                measure(build, array, scale, True)[1], expected
            )


def test_a_flushing_thread_is_measured_as_any_other(builds):
    """TensorFlow and XLA flush denormals to zero; the sweep undoes it for itself."""
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        pytest.skip("needs the environment of glibc on x86-64")
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    before, flushing, after = ((ctypes.c_uint32 * 8)() for _ in range(3))
    array, denormal = np.full(3000, 1e-40, np.float32), np.full(4, 1e-310)
    for build in builds:
        narrow = TensorLayout([(4, "float64")], build)
        libm.fegetenv(before)
        ctypes.memmove(flushing, before, 32)
        flushing[7] |= 0x8040  # MXCSR: denormal results and operands are zero
        libm.fesetenv(flushing)
        row = measure(build, array)[0]
        [norm] = narrow.norms([denormal.ctypes.data])
        libm.fegetenv(after)
        libm.fesetenv(before)
        assert row[6] == 0.0, "A denormal is not a zero."
        assert row[4] == np.float64(array[0])
        assert norm == 2 * denormal[0]
        assert after[7] == flushing[7], "The thread must keep its own environment."


def test_threads_share_a_layout(builds):
    """There is no state in the library, and none that changes in a layout."""
    array = np.random.default_rng(6).normal(size=50_000).astype(np.float32)
    for build in builds:
        layout = TensorLayout([(array.size, "float32")] * 3, build)
        first = layout.measure([array.ctypes.data] * 3)[0]
        with ThreadPoolExecutor(8) as pool:
            calls = [
                pool.submit(layout.measure, [array.ctypes.data] * 3) for _ in range(64)
            ]
        for call in calls:
            np.testing.assert_array_equal(call.result()[0], first)


def test_norms_propagate_what_is_not_finite(builds):
    """Plain norms: as `np.linalg.norm`, but without its overflow."""
    tensors = [
        np.array([3.0, -4.0]),
        np.array([1e200, 1e200]),
        np.array([1e-200, 0.0]),
        np.array([1.0, np.inf, 1e300]),
        np.array([np.inf, np.nan]),
        np.zeros(0),
        np.full(5000, 1e-310),
        np.r_[np.inf, np.zeros(3000), 1e300],  # in two blocks
    ]
    expected = [5.0, 2**0.5 * 1e200, 1e-200, np.inf, np.nan, 0.0, 5000**0.5 * 1e-310]
    expected.append(np.inf)
    for build in builds:
        layout = TensorLayout([(t.size, "float64") for t in tensors], build)
        norms = layout.norms([t.ctypes.data for t in tensors])
        np.testing.assert_allclose(norms, expected, 1e-12)
    for dtype in ("float32", "float16", "bfloat16"):
        array = cast(np.random.default_rng(8).normal(size=5001) * 100, dtype)
        for build in builds:
            [norm] = TensorLayout([(array.size, dtype)], build).norms(
                [array.ctypes.data]
            )
            np.testing.assert_allclose(norm, twin.row(array)[0], 1e-12)
