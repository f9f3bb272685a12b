"""A straight path from a baseline to the input, and the gradients along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._checked import require_one_of
from .._problem import Point, Problem

RULES = ("gauss_legendre", "trapezoid")

Arrays = list[np.ndarray]

Start = Callable[[int, np.ndarray], Arrays]
"""Returns the beginning of the path that a point is on: an array for each of `free`."""


def rule(name: str, steps: int, paths: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points of a rule for the integral from 0 to 1, and their weights.

    Both ends are among them, the ones of Gauss–Legendre with a weight of zero: the
    target there says how exact the sum is. Of several paths, all points of the first
    come first, and the weights are those of a mean.

    Example:
    >>> rule("trapezoid", 2)[0].tolist()
    [0.0, 0.5, 1.0]
    """
    require_one_of(name, "rule", RULES)
    if name == "trapezoid":
        weights = np.full(steps + 1, 1 / steps)
        weights[[0, -1]] /= 2
        alphas = np.linspace(0, 1, steps + 1)
    else:
        points, inner = np.polynomial.legendre.leggauss(steps)
        alphas = np.concatenate([[0.0], (points + 1) / 2, [1.0]])
        weights = np.concatenate([[0.0], inner / 2, [0.0]])
    return np.tile(alphas, paths), np.tile(weights / paths, paths)


def paths_from(starts: Sequence[Arrays], alphas: np.ndarray) -> Start:
    """Returns the beginnings of paths from each baseline, with equally many points."""
    count = len(alphas) // len(starts)
    return lambda number, rows: [array[rows] for array in starts[number // count]]


def point_on(problem: Problem, start: Start, alphas: np.ndarray) -> Point:
    """Returns points on straight paths to the inputs.

    Args:
        problem: The question.
        start: Where the path of each point begins.
        alphas: Share of the way, of each point or of each point and example.
    """

    def point(number: int, rows: np.ndarray) -> Arrays:
        share = alphas[number] if alphas.ndim == 1 else alphas[number, rows]
        ends = zip(start(number, rows), problem.free.values, strict=True)
        return [a + _column(share, a) * (v[rows] - a) for a, v in ends]

    return point


def _column(numbers: np.ndarray, like: np.ndarray) -> np.ndarray:
    # In the precision of the values: float64 would double what a pass moves.
    return np.reshape(numbers, (-1, *[1] * (like.ndim - 1))).astype(like.dtype)


def path_sums(
    problem: Problem,
    start: Start,
    alphas: np.ndarray,
    weights: np.ndarray,
    *,
    times_way: bool = True,
    at_once: tuple[int, int] | None = None,
) -> tuple[Arrays, np.ndarray]:
    """Adds up the gradients at points on straight paths to the inputs.

    Args:
        problem: The question.
        start: Where the path of each point begins.
        alphas: Share of the way, of each point or of each point and example.
        weights: Weight of the gradient, likewise.
        times_way: True multiplies each gradient with the way from baseline to input.
        at_once: Number of examples, and of points of each, that make one pass.

    Returns:
        The sums, and the target at each point: [points, examples].
    """
    point = point_on(problem, start, alphas)
    every = np.arange(problem.size)
    weights = np.broadcast_to(weights.T, (problem.size, len(alphas))).T
    scores = np.zeros((len(alphas), problem.size))
    totals: Arrays = []
    for points, part, found in problem.passes(len(alphas), point, at_once=at_once):
        scores[points, part] = found[0]
        own = problem.at.values
        totals = totals or [np.zeros(values.shape) for values in own]
        for offset, number in enumerate(range(points.start, points.stop)):
            begins = start(number, every[part]) if times_way else []
            for index, total in enumerate(totals):
                share = found[1 + index][offset]
                if times_way:
                    share = share * (own[index][part] - begins[index])
                total[part] += _column(weights[number, part], share) * share
    values = [t.astype(v.dtype) for t, v in zip(totals, problem.at.values, strict=True)]
    return values, scores.astype(found[0].dtype)
