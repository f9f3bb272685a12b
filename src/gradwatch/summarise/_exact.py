"""The exact numbers of a large tensor: it is read four times, and nothing is written.

Smallest, largest, sum and squares. Where an element is not finite, or so large or small
that its square is not, everything is recomputed, of the finite elements divided by
a power of two.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from keras import ops

from ._kernels import (
    LARGEST,
    SMALLEST,
    Kernels,
    Tensor,
    exponent_of,
    stacked,
    unless,
    widened,
)
from ._pack import sample_of

PIECES = 64
EXACT = ("low", "high", "total", "squares", "exponent", "nan", "posinf", "neginf")


class Reading(NamedTuple):
    """Numbers of a large tensor that was read before the optimizer used it up.

    Attributes:
        shape: Shape of the tensor.
        numbers: `EXACT`, as a vector.
        sample: About `SAMPLE` of its elements, as a vector.
    """

    shape: tuple[int, ...]
    numbers: Tensor
    sample: Tensor


def read(tensor: Tensor, kernels: Kernels) -> tuple[Tensor, Tensor]:
    """Returns the numbers and the sample of a `Reading`."""
    tensor = widened(*kernels.apart([tensor]))
    return exact([tensor], kernels)[0], sample_of(tensor, kernels.take)


def exact(tensors: Sequence[Tensor], kernels: Kernels) -> Tensor:
    """Returns `EXACT` of each tensor, as rows."""
    return kernels.of_each(_exact(kernels), tensors)


@functools.cache
def _exact(kernels: Kernels) -> Callable[[Sequence[Tensor]], Tensor]:
    return partial(_exact_with, kernels)


def _exact_with(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
    sums = kernels.in_turn([partial(kernels.sums, tensor) for tensor in tensors])
    low, high, total, squares = (
        stacked([numbers[i] for numbers in sums]) for i in range(4)
    )
    top = ops.maximum(-low, high)
    # A sum is not finite if any element is not; the extremes may pass over a NaN.
    fine = ops.isfinite(total) & ((top == 0) | ((top > SMALLEST) & (top < LARGEST)))

    def plain() -> Tensor:
        none = ops.zeros_like(total)
        columns = (low, high, total, squares, none, none, none, none)
        return ops.stack(columns, axis=1)

    def careful() -> Tensor:
        return ops.stack([_careful(tensor, kernels) for tensor in tensors])

    return unless(ops.all(fine), plain(), careful, kernels)


def _careful(tensor: Tensor, kernels: Kernels) -> Tensor:
    """Measures the finite elements, divided by a power of two before squaring."""
    kinds = _in_pieces(_kinds, tensor, kernels)
    low, high = ops.min(kinds[:, 0]), ops.max(kinds[:, 1])
    exponent = exponent_of(ops.maximum(-low, high))
    factor = ops.power(ops.ones_like(exponent) * 2, -exponent)
    sums = _in_pieces(partial(_sums, factor), tensor, kernels)
    counts = (ops.sum(kinds[:, i]) for i in (2, 3, 4))
    total, squares = ops.sum(sums[:, 0]), ops.sum(sums[:, 1])
    return stacked([low, high, total, squares, exponent, *counts])


def _kinds(piece: Tensor) -> Tensor:
    finite, infinite = ops.isfinite(piece), ops.full_like(piece, math.inf)
    kinds = (ops.isnan(piece), piece == math.inf, piece == -math.inf)
    return ops.stack(
        [
            ops.min(ops.where(finite, piece, infinite)),
            ops.max(ops.where(finite, piece, -infinite)),
            *(ops.sum(ops.cast(kind, piece.dtype)) for kind in kinds),
        ]
    )


def _sums(factor: Tensor, piece: Tensor) -> Tensor:
    numbers = ops.where(ops.isfinite(piece), piece, ops.zeros_like(piece)) * factor
    return ops.stack([ops.sum(numbers), ops.sum(ops.square(numbers))])


def _in_pieces(
    function: Callable[[Tensor], Tensor], tensor: Tensor, kernels: Kernels
) -> Tensor:
    """Calls a function of vectors on pieces of a tensor, and returns its rows.

    XLA sets memory aside for a branch whether it is taken or not, and much of it is
    fresh memory at every step: so a branch goes through a tensor piece by piece.
    """
    flat = ops.reshape(tensor, (-1,))
    if kernels.can_branch or None in tuple(tensor.shape):
        return function(flat)[None]
    size = math.prod(tuple(tensor.shape))
    width = size // PIECES
    pieces = ops.reshape(flat[: width * PIECES], (PIECES, width))
    lines = ops.map(function, pieces)
    if width * PIECES == size:
        return lines
    return ops.concatenate([lines, function(flat[width * PIECES :])[None]])
