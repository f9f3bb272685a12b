"""Similarity of two explanations: by the order of their values, and as pictures."""

from __future__ import annotations

import numpy as np


def ranks_with_ties(values: np.ndarray) -> np.ndarray:
    """Returns the rank of each value, from 1; equal ones share the mean of theirs.

    Example:
    >>> ranks_with_ties(np.array([0.3, 0.1, 0.3, 0.9])).tolist()
    [2.5, 1.0, 2.5, 4.0]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse.reshape(values.shape)])


def spearman(one: np.ndarray, two: np.ndarray) -> float:
    """Returns the rank correlation of two vectors; NaN where one is constant.

    Spearman, *The Proof and Measurement of Association between Two Things* (1904): the
    correlation of the ranks.

    Example:
    >>> spearman(np.array([1.0, 2.0, 4.0]), np.array([1.0, 8.0, 9.0]))
    1.0
    """
    a, b = (r - r.mean() for r in map(ranks_with_ties, (one, two)))
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else float("nan")


def ssim(one: np.ndarray, two: np.ndarray) -> float:
    """Returns the structural similarity of two pictures whose range is 1.

    Wang, Bovik, Sheikh and Simoncelli, *Image Quality Assessment* (2004), eqs. 13 and
    17, with K₁ = 0.01 and K₂ = 0.03, in squares of seven pixels that all count alike.

    Example:
    >>> picture = np.eye(9)
    >>> round(ssim(picture, picture), 6), ssim(picture, 1 - picture) < 0
    (1.0, True)
    """
    side = min(7, *one.shape)
    mean_a, mean_b = _means(one, side), _means(two, side)
    var_a = _means(one * one, side) - mean_a**2
    var_b = _means(two * two, side) - mean_b**2
    both = _means(one * two, side) - mean_a * mean_b
    c1, c2 = 0.01**2, 0.03**2
    top = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    bottom = (mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)
    return float(np.mean(top / bottom))


def _means(picture: np.ndarray, side: int) -> np.ndarray:
    """Returns the mean of each square of that side that lies in the picture."""
    windows = np.lib.stride_tricks.sliding_window_view(picture, (side, side))
    return np.asarray(windows.mean(axis=(-2, -1)))
