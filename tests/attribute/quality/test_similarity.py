"""How alike two explanations are, against other ways to compute it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwatch.attribute.quality._similarity import ranks_with_ties, spearman, ssim

FEW = st.lists(st.integers(-3, 3), min_size=2, max_size=12)


def slow_rank(values):
    """How many are smaller, plus the middle of those that are equal."""
    return [
        sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2
        for v in values
    ]


@settings(max_examples=30)
@given(FEW)
def test_equal_values_share_their_ranks(values):
    """By counting."""
    assert ranks_with_ties(np.array(values)).tolist() == slow_rank(values)


@settings(max_examples=30)
@given(FEW.flatmap(lambda a: st.tuples(st.just(a), st.permutations(a))))
def test_the_rank_correlation_is_the_one_of_scipy(pair):
    """With ties; a constant has none."""
    stats = pytest.importorskip("scipy.stats")
    one, two = (np.array(values, "float64") for values in pair)
    found = spearman(one, two)
    if len(set(pair[0])) == 1:
        assert np.isnan(found)
    else:
        assert abs(found - stats.spearmanr(one, two).statistic) < 1e-12


def test_a_rank_correlation_by_hand():
    """1 − 6 Σ d² / (n (n² − 1)), where no two are equal."""
    one = np.array([0.1, 7.0, -3.0, 2.0, 5.0])
    two = np.array([3.0, 2.0, -1.0, 4.0, 10.0])
    gaps = np.array(slow_rank(one)) - np.array(slow_rank(two))
    assert abs(spearman(one, two) - (1 - 6 * (gaps @ gaps) / (5 * 24))) < 1e-12
    assert spearman(one, -one) == -1


def slow_ssim(one, two, side):
    """Wang et al. (2004), eq. 13, square by square."""
    found = []
    for top in range(one.shape[0] - side + 1):
        for left in range(one.shape[1] - side + 1):
            a = one[top : top + side, left : left + side].ravel()
            b = two[top : top + side, left : left + side].ravel()
            both = np.cov(a, b, bias=True)
            light = (2 * a.mean() * b.mean() + 1e-4) / (
                a.mean() ** 2 + b.mean() ** 2 + 1e-4
            )
            shape = (2 * both[0, 1] + 9e-4) / (both[0, 0] + both[1, 1] + 9e-4)
            found.append(light * shape)
    return np.mean(found)


@pytest.mark.parametrize(("shape", "side"), [((11, 9), 7), ((5, 8), 5)])
def test_structural_similarity_square_by_square(shape, side):
    """Small pictures are compared in smaller squares."""
    random = np.random.default_rng(0)
    one = random.uniform(size=shape)
    two = 0.5 * one + 0.5 * random.uniform(size=shape)
    assert abs(ssim(one, two) - slow_ssim(one, two, side)) < 1e-9
    assert 0.2 < ssim(one, two) < 0.95
