"""All sums of many small tensors, and of the samples of large ones, at once."""

from __future__ import annotations

import math

import numpy as np
from keras import ops

from ._kernels import LARGEST, SMALLEST, Tensor, along, exponent_of
from ._pack import Pack

# Beside a mean that is this share of the mean square, at most, the variance loses no
# more than one digit when one is taken from the other.
_SHARE = 0.9


def measured(pack: Pack, matrix: Tensor, limit: Tensor) -> Tensor:
    """Returns `SUMS` of each vector of the pack, as rows.

    Every operation writes a matrix as large as this one, so there are as few as can be:
    what is not finite, or too large or small to be squared, is looked for in what they
    give, and only then is everything recomputed with more care.
    """
    lines = _Lines(pack, matrix)
    high, negative_low = pack.largest(lines.high, -lines.low)
    magnitudes = ops.abs(matrix)
    total, absolute, squares, zero, vanished, spread = pack.sums(
        ops.sum(matrix, axis=1),
        ops.sum(magnitudes, axis=1),
        ops.sum(ops.square(matrix), axis=1),
        along(matrix == 0),
        along(magnitudes <= limit),
        lines.spread,
    )
    size = ops.convert_to_tensor(pack.lengths.astype(np.float32))
    filled = ops.convert_to_tensor(pack.missing.astype(np.float32))
    several = ops.convert_to_tensor(pack.several)
    top = ops.maximum(high, negative_low)
    usual = (top == 0) | ((top > SMALLEST) & (top < LARGEST))
    spread_out = ops.square(total) <= _SHARE * size * squares
    constant = high == -negative_low
    fine = usual & ops.isfinite(total) & (spread_out | constant | ~several)
    none = ops.zeros_like(total)
    unknown = ops.where(several, ops.full_like(total, math.nan), spread)

    def plain() -> Tensor:
        moments = (size, size, -negative_low, high, total, squares, none)
        shares = (absolute, zero - filled, vanished - filled, unknown)
        return ops.stack([*moments, none, none, none, *shares], axis=1)

    return ops.cond(ops.all(fine), plain, lambda: _careful(pack, matrix, limit))


class _Lines:
    """Extremes and spread of each line; the zeros that fill a line up do not count."""

    def __init__(self, pack: Pack, matrix: Tensor) -> None:
        self.low, self.high = ops.min(matrix, axis=1), ops.max(matrix, axis=1)
        self.spread = ops.zeros_like(self.low)
        edges = pack.edges
        if not len(edges):
            return
        some = pack.take(matrix, edges)
        inside = ops.convert_to_tensor(pack.inside[edges])
        numbers = ops.where(inside, some, some[:, :1])
        length = ops.convert_to_tensor(pack.inside[edges].sum(1).astype(np.float32))
        center = ops.sum(some, axis=1) / ops.maximum(length, 1.0)
        away = ops.where(inside, some - center[:, None], ops.zeros_like(some))
        exact = {
            "low": ops.min(numbers, axis=1),
            "high": ops.max(numbers, axis=1),
            "spread": ops.sum(ops.square(away), axis=1),
        }
        indices = np.arange(len(pack.owners), dtype=np.int32)
        indices[edges] = len(indices) + np.arange(len(edges))
        for name, edge in exact.items():
            both = ops.concatenate([getattr(self, name), edge])
            setattr(self, name, pack.take(both, indices))


def _careful(pack: Pack, matrix: Tensor, limit: Tensor) -> Tensor:
    """Measures the finite elements, divided by a power of two before squaring."""
    inside = ops.convert_to_tensor(pack.inside)
    finite = ops.logical_and(ops.isfinite(matrix), inside)
    numbers = ops.where(finite, matrix, ops.zeros_like(matrix))
    magnitudes = ops.abs(numbers)
    infinite = ops.full_like(matrix, math.inf)
    top, high, negative_low = pack.largest(
        ops.max(magnitudes, axis=1),
        ops.max(ops.where(finite, matrix, -infinite), axis=1),
        ops.max(ops.where(finite, -matrix, -infinite), axis=1),
    )
    exponent = exponent_of(top)
    shrunk = numbers * pack.spread(ops.power(2.0, -exponent))
    zeros = ops.logical_and(matrix == 0, inside)
    vanishing = ops.logical_and(magnitudes <= limit, finite)
    count, total, absolute, squares, zero, vanished = pack.sums(
        along(finite),
        ops.sum(shrunk, axis=1),
        ops.sum(ops.abs(shrunk), axis=1),
        ops.sum(ops.square(shrunk), axis=1),
        along(zeros),
        along(vanishing),
    )
    center = total / ops.maximum(count, 1.0)
    # Distances from the mean: "mean of squares less square of mean" has no correct
    # digit when the mean is large beside the spread.
    away = ops.where(finite, shrunk - pack.spread(center), ops.zeros_like(shrunk))
    (spread,) = pack.sums(ops.sum(ops.square(away), axis=1))
    size = ops.convert_to_tensor(pack.lengths.astype(np.float32))

    def nonfinite() -> Tensor:
        kinds = (ops.isnan(matrix), matrix == math.inf, matrix == -math.inf)
        return ops.stack(pack.sums(*(along(kind) for kind in kinds)), axis=1)

    odd = ops.cond(
        ops.all(count == size),
        lambda: ops.zeros((len(pack.lengths), 3), "float32"),
        nonfinite,
    )
    sums = (size, size, -negative_low, high, total, squares, exponent)
    return ops.concatenate(
        [
            ops.stack(sums, axis=1),
            odd,
            ops.stack([absolute, zero, vanished, spread], axis=1),
        ],
        axis=1,
    )
