"""A straight path from a baseline to the input, and the gradients along it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from .._errors import GradwatchError
from ._checked import require_count
from ._problem import Found, Problem
from ._rows import Some, in_parts
from ._spots import host

RULES = ("gauss_legendre", "trapezoid")

Arrays = list[np.ndarray]


@dataclass(frozen=True, slots=True)
class Walk:
    """What was seen along a path."""

    sums: Arrays
    """Σ weight · gradient over the points, for each place."""
    scores: np.ndarray
    """The target at each point: [points, examples]."""


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


def whole(steps: Any) -> int:
    """Raises when `steps` is no number of points."""
    require_count(steps, "steps")
    return int(steps)


def passes(
    problem: Problem,
    some: Some,
    ends: tuple[Arrays, Arrays],
    alphas: np.ndarray,
    count: int,
) -> Iterator[tuple[Some, Found]]:
    """Walks the paths of some examples, `count` points at a time.

    Args:
        problem: What is explained.
        some: The examples.
        ends: Where the paths of all examples begin and end, for each of `free`.
        alphas: The points, from 0 to 1.
        count: How many make one pass.
    """
    free = problem.free
    starts, stops = (free.tensors(some.index, arrays) for arrays in ends)
    starts = [ops.cast(t, _wide(t)) for t in starts]
    ways = [ops.cast(t, s.dtype) - s for t, s in zip(stops, starts, strict=True)]
    rows = np.tile(some.index, count)
    for part in in_parts(len(alphas), count):
        where = alphas[part.index]
        points = [_between(b, way, where) for b, way in zip(starts, ways, strict=True)]
        yield part, problem.gradients(rows, free.cast(points))


def along(
    problem: Problem,
    ends: tuple[Arrays, Arrays],
    alphas: np.ndarray,
    weights: np.ndarray,
    several: int | None = None,
) -> Walk:
    """Walks from one array to the other, and adds the gradients up.

    Args:
        problem: What is explained.
        ends: Where the paths begin and end, for each of `free`.
        alphas: The points, from 0 to 1.
        weights: The weight of the gradient at each.
        several: How many points to take at once; None: what costs the least.
    """
    examples, best = problem.at_once(len(alphas))
    count = several or best
    parts: list[Arrays] = []
    scores: Arrays = []
    for some in in_parts(problem.size, examples):
        totals: list[Any] = []
        seen = []
        for part, found in passes(problem, some, ends, alphas, count):
            # What only fills the pass up counts nothing.
            share = weights[part.index] * (np.arange(count) < part.real)
            seen.append(host(found.scores).reshape(count, -1)[: part.real])
            sums = [weighted(share, g) for g in found.gradients]
            totals = list(map(operator.add, totals, sums)) if totals else sums
        parts.append([host(total)[: some.real] for total in totals])
        scores.append(np.concatenate(seen)[:, : some.real])
    together = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Walk(together, np.concatenate(scores, axis=1))


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
