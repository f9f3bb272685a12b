"""Norms of weights and updates, from a sample taken before the update."""

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


def moves(build, before, after):
    layout = TensorLayout([(before.size, before.dtype.name)], build)
    sample = layout.sample([before.ctypes.data])
    return layout.moves(sample, [after.ctypes.data])[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sample_is_of_evenly_spread_blocks(builds, dtype):
    """All of a small tensor; else 64 blocks of 1,024, from the first to the last."""
    sizes = [0, 1, 3, 1024, 65536, 65537, 66_000, 200_001]
    tensors = [(np.arange(size) % 997).astype(DTYPES[dtype]) for size in sizes]
    pieces = []
    for tensor in tensors:
        taken = twin.sampled(tensor).view(np.uint8)
        pieces += [taken, np.zeros(-taken.size % 8, np.uint8)]
    for build in builds:
        layout = TensorLayout([(size, dtype) for size in sizes], build)
        sample = layout.sample([tensor.ctypes.data for tensor in tensors])
        np.testing.assert_array_equal(sample, np.concatenate(pieces))


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_tensors_are_exact(builds, dtype):
    """The weight before the update, and the difference taken in double."""
    rng = np.random.default_rng(0)
    for size in (0, 1, 5, 1023, 1024, 1025, 5000, 65536):
        before = rng.normal(size=size).astype(DTYPES[dtype])
        after = (before.astype(np.float64) + 0.01 * rng.normal(size=size)).astype(
            DTYPES[dtype]
        )
        wide = before.astype(np.float64), after.astype(np.float64)
        expected = [
            np.linalg.norm(wide[0]),
            0.0,
            np.linalg.norm(wide[1] - wide[0]),
            0.0,
        ]
        for build in builds:
            np.testing.assert_allclose(moves(build, before, after), expected, 1e-12)


def test_a_large_tensor_is_an_estimate_from_clusters(builds):
    """The estimate and its standard error by the formulas of a cluster sample."""
    rng = np.random.default_rng(1)
    before = rng.normal(size=300_007).astype(np.float32)
    after = before + (0.1 * rng.normal(size=before.size)).astype(np.float32)
    wide = (
        before.astype(np.float64),
        after.astype(np.float64) - before.astype(np.float64),
    )
    expected = []
    for values in wide:
        sums = [(values[a : a + 1024] ** 2).sum() for a in twin.starts(values.size)]
        clusters = values.size / 1024
        variance = clusters**2 / 64 * np.var(sums, ddof=1) * (1 - 64 / clusters)
        norm = np.sqrt(clusters / 64 * sum(sums))
        expected += [norm, np.sqrt(variance) / (2 * norm)]
    for build in builds:
        np.testing.assert_allclose(moves(build, before, after), expected, 1e-10)


def test_estimates_lie_within_their_standard_errors(builds):
    """Within 4 of them, below 1 % of the norm, and as wide as the spread really is."""
    rng = np.random.default_rng(2)
    away, errors = [], []
    for _ in range(60):
        before = rng.normal(size=150_000).astype(np.float32)
        after = before + (1e-3 * rng.standard_t(8, before.size)).astype(np.float32)
        update = after.astype(np.float64) - before
        truth = np.linalg.norm(before.astype(np.float64)), np.linalg.norm(update)
        row = moves(builds[-1], before, after)
        for norm, error, true in ((*row[:2], truth[0]), (*row[2:], truth[1])):
            assert abs(norm - true) <= 4 * error
            assert 0 < error < 0.01 * norm
        away.append((row[2] - truth[1]) / truth[1])
        errors.append(row[3] / row[2])
    assert 0.7 < np.std(away) / np.mean(errors) < 1.4


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([3.0, 4.0], [3.0, np.nan], [5.0, np.nan]),
        ([3.0, np.inf], [3.0, 4.0], [np.inf, np.inf]),
        ([np.nan, 1.0], [1.0, 1.0], [np.nan, np.nan]),
        ([1e30, 0.0], [1e30, 1e-30], [1e30, 1e-30]),
        ([1e300, 0.0], [1e300, 1e-300], [1e300, 1e-300]),
        ([-1.5e308], [1.5e308], [1.5e308, np.inf]),
        ([-0.5e308, 1e-320], [0.8e308, 1e-320], [0.5e308, 1.3e308]),
        ([0.0], [0.0], [0.0, 0.0]),
    ],
)
def test_extreme_moves(builds, before, after, expected):
    """NaN and infinities propagate; finite input neither over- nor underflows."""
    for build in builds:
        row = moves(build, np.array(before), np.array(after))
        np.testing.assert_allclose(row[[0, 2]], expected, 1e-12)
        np.testing.assert_array_equal(row[[1, 3]], 0.0)


def test_a_large_tensor_that_did_not_move(builds):
    """A norm of 0 has a standard error of 0; a NaN in the sample shows."""
    still = np.ones(100_000, np.float32)
    broken = still.copy()
    broken[-1] = np.nan
    for build in builds:
        np.testing.assert_array_equal(moves(build, still, still)[2:], 0.0)
        np.testing.assert_allclose(moves(build, still, still)[0], 100_000**0.5, 1e-12)
        assert np.isnan(moves(build, still, broken)[2])
