"""A straight path from a baseline to the input, and the gradients along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .._checked import check, require_one_of
from .._problem import Problem

RULES = ("gauss_legendre", "trapezoid")

Arrays = list[np.ndarray]


def points_of(rule: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points of a rule for the integral from 0 to 1, and their weights.

    Both ends are among them, the ones of Gauss–Legendre with a weight of zero: the
    target there says how exact the sum is.

    Example:
    >>> points_of("trapezoid", 2)[0].tolist()
    [0.0, 0.5, 1.0]
    """
    require_one_of(rule, "rule", RULES)
    check(steps=steps)
    if rule == "trapezoid":
        weights = np.full(steps + 1, 1 / steps)
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, steps + 1), weights
    points, inner = np.polynomial.legendre.leggauss(steps)
    alphas = np.concatenate([[0.0], (points + 1) / 2, [1.0]])
    return alphas, np.concatenate([[0.0], inner / 2, [0.0]])


@dataclass(frozen=True, slots=True)
class Path:
    """Points on straight paths to the inputs, and the gradients along them.

    Attributes:
        problem: The question.
        start: Where the path of each point begins.
        alphas: Share of the way, of each point or of each point and example.
        weights: Weight of the gradient, likewise.
    """

    problem: Problem
    start: Callable[[int, np.ndarray], Arrays]
    alphas: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.alphas)

    def point(self, number: int, rows: np.ndarray) -> Arrays:
        """Returns one point, for some examples: an array for each of `free`."""
        share = self.alphas[number]
        share = share[rows] if self.alphas.ndim > 1 else share
        ends = zip(self.start(number, rows), self.problem.free.values, strict=True)
        return [a + _column(share, a) * (v[rows] - a) for a, v in ends]

    def sums(
        self, *, times_way: bool = True, at_once: tuple[int, int] | None = None
    ) -> tuple[Arrays, np.ndarray]:
        """Adds up the gradients at the points.

        Args:
            times_way: True multiplies each gradient with the way from baseline to
                input.
            at_once: Number of examples, and of points of each, that make one pass.

        Returns:
            The sums, and the target at each point: [points, examples].
        """
        problem, count = self.problem, len(self)
        every = np.arange(problem.size)
        weights = np.broadcast_to(self.weights.T, (problem.size, count)).T
        scores = np.zeros((count, problem.size))
        totals: Arrays = []
        for points, part, arrays in problem.passes(count, self.point, at_once=at_once):
            scores[points, part] = arrays[0]
            own = problem.at.values
            totals = totals or [np.zeros(values.shape) for values in own]
            for offset, number in enumerate(range(points.start, points.stop)):
                begins = self.start(number, every[part]) if times_way else []
                for index, total in enumerate(totals):
                    share = arrays[1 + index][offset]
                    if times_way:
                        share = share * (own[index][part] - begins[index])
                    total[part] += _column(weights[number, part], share) * share
        values = [t.astype(v.dtype) for t, v in zip(totals, own, strict=True)]
        return values, scores.astype(arrays[0].dtype)


def path_from(
    problem: Problem, starts: Sequence[Arrays], rule: str, steps: int
) -> Path:
    """Returns the paths from several baselines, with the points of a rule on each.

    All points of the first path come first, and the weights are those of a mean.
    """
    alphas, weights = points_of(rule, steps)
    alphas, count = np.tile(alphas, len(starts)), len(alphas)
    weights = np.tile(weights / len(starts), len(starts))

    def start(number: int, rows: np.ndarray) -> Arrays:
        return [array[rows] for array in starts[number // count]]

    return Path(problem, start, alphas, weights)


def _column(numbers: np.ndarray, like: np.ndarray) -> np.ndarray:
    # In the precision of the values: float64 would double what a pass moves.
    return np.reshape(numbers, (-1, *[1] * (like.ndim - 1))).astype(like.dtype)
