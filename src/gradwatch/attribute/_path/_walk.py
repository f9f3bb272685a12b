"""A straight path from a baseline to the input, and the gradients along it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from ..._errors import GradwatchError
from .._problem import Problem
from .._rows import RowRange, in_parts
from .._tensors import to_numpy

RULES = ("gauss_legendre", "trapezoid")

Arrays = list[np.ndarray]

Ends = tuple[Arrays, Arrays]
"""Beginning and end of the paths of all examples, for each of `free`."""

Walked = tuple[np.ndarray, Arrays]
"""The target at each point, [points, examples], and a sum over the points."""

Walk = Callable[[RowRange, Ends, int], Walked]
"""Walks the paths of some examples, a number of points at a time."""


def rule(name: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points of a rule for the integral from 0 to 1, and their weights.

    Both ends are among them, the ones of Gauss–Legendre with a weight of zero: the
    target there says how exact the sum is.

    Example:
    >>> rule("trapezoid", 2)[0].tolist()
    [0.0, 0.5, 1.0]
    """
    if name not in RULES:
        raise GradwatchError(f"`rule` must be one of {RULES}. Received: {name!r}.")
    if name == "trapezoid":
        weights = np.full(steps + 1, 1 / steps)
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, steps + 1), weights
    points, weights = np.polynomial.legendre.leggauss(steps)
    alphas = np.concatenate([[0.0], (points + 1) / 2, [1.0]])
    return alphas, np.concatenate([[0.0], weights / 2, [0.0]])


def mean_over_paths(
    problem: Problem,
    starts: Sequence[Arrays],
    walk: Walk,
    at_once: tuple[int, int],
    *,
    times_length: bool = True,
) -> tuple[Arrays, np.ndarray, np.ndarray]:
    """Walks from each baseline to the input, and takes the mean.

    Args:
        problem: The question.
        starts: The baselines: for each, an array for each of `free`.
        walk: Walks the paths of some examples.
        at_once: Number of examples, and of points of each, that make one pass.
        times_length: True multiplies the sums with the way from baseline to input.

    Returns:
        The sums, the target at the inputs, and the target at the baselines.
    """
    examples, count = at_once
    stop = problem.free.values
    values: list[Any] = []
    before: Any = 0.0
    for start in starts:
        parts = []
        for part in in_parts(problem.size, examples):
            scores, sums = walk(part, (start, stop), count)
            arrays = (scores[0], scores[-1], *sums)
            parts.append([array[: part.real] for array in arrays])
        first, last, *sums = map(np.concatenate, zip(*parts, strict=True))
        if times_length:
            sums = [s * (b - a) for s, a, b in zip(sums, start, stop, strict=True)]
        values = added(values, [s / len(starts) for s in sums])
        before = before + first / len(starts)
    return values, last, before


def points_between(
    problem: Problem, part: RowRange, ends: Ends, alphas: np.ndarray, count: int
) -> Iterator[tuple[RowRange, np.ndarray, list[Any]]]:
    """Yields `count` points on the paths of some examples at a time.

    Yields:
        The points by number, the example of each row, and a tensor for each of `free`.
    """
    free = problem.free
    starts, stops = (free.tensors(part.index, arrays) for arrays in ends)
    starts = [ops.cast(t, _wide(t)) for t in starts]
    ways = [ops.cast(t, s.dtype) - s for t, s in zip(stops, starts, strict=True)]
    rows = np.tile(part.index, count)
    for some in in_parts(len(alphas), count):
        here = alphas[some.index]
        points = [_between(a, way, here) for a, way in zip(starts, ways, strict=True)]
        yield some, rows, free.cast(points)


def weighted_gradients(
    problem: Problem,
    alphas: np.ndarray,
    weights: np.ndarray,
    slopes: Callable[[np.ndarray, list[Any]], np.ndarray] | None = None,
) -> Walk:
    """Returns a walk that adds up the gradients at the points.

    Args:
        problem: The question.
        alphas: The points, from 0 to 1.
        weights: The weight of the gradient at each.
        slopes: Returns a factor for each row of a pass.
    """

    def walk(part: RowRange, ends: Ends, count: int) -> Walked:
        totals: list[Any] = []
        scores = []
        for some, rows, points in points_between(problem, part, ends, alphas, count):
            passed = problem.gradients(rows, points)
            gradients = passed.gradients
            if slopes is not None:
                factor = slopes(rows, points)
                gradients = [times(g, factor) for g in gradients]
            # Points that only fill up the pass weigh nothing.
            share = weights[some.index] * (np.arange(count) < some.real)
            totals = added(totals, [weighted(share, g) for g in gradients])
            scores.append(to_numpy(passed.scores).reshape(count, -1)[: some.real])
        return np.concatenate(scores), [to_numpy(total) for total in totals]

    return walk


def added(totals: list[Any], more: Sequence[Any]) -> list[Any]:
    """Returns the sums, one by one; the second alone if there is no first."""
    return list(map(operator.add, totals, more)) if totals else list(more)


def _between(begin: Any, way: Any, where: np.ndarray) -> Any:
    """Returns the points as rows: first all examples at the first point, and so on."""
    shape = (-1, *[1] * len(begin.shape))
    alpha = ops.convert_to_tensor(where.reshape(shape), dtype=begin.dtype)
    points = alpha * way[None] + begin[None]
    return ops.reshape(points, (-1, *begin.shape[1:]))


def weighted(weights: np.ndarray, gradients: Any) -> Any:
    """Adds up the gradients of each example, in float32 at least."""
    dtype = _wide(gradients)
    count, shape = len(weights), gradients.shape
    rows = ops.reshape(ops.cast(gradients, dtype), (count, -1))
    total = ops.matmul(ops.convert_to_tensor(weights[None], dtype=dtype), rows)
    return ops.reshape(total, (shape[0] // count, *shape[1:]))


def times(tensor: Any, array: np.ndarray) -> Any:
    """Multiplies each row of a tensor with numbers, in float32 at least."""
    dtype = _wide(tensor)
    array = array.reshape(*array.shape, *[1] * (len(tensor.shape) - array.ndim))
    return ops.cast(tensor, dtype) * ops.convert_to_tensor(array, dtype=dtype)


def _wide(tensor: Any) -> str:
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    return "float32" if dtype in ("float16", "bfloat16") else str(dtype)
