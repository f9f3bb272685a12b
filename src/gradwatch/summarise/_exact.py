"""What must be exact of a large tensor: it is read four times, and nothing is written.

Smallest, largest, sum and squares. Where an element is not finite, or so large or small
that its square is not, everything is computed again, of the finite elements divided by
a power of two.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from keras import ops

from ._elements import (
    LARGEST,
    SMALLEST,
    Kernels,
    Tensor,
    exponent_of,
    stacked,
    widened,
)
from ._sample import sample_of

EXACT = ("low", "high", "total", "squares", "exponent", "nan", "posinf", "neginf")


class Reading(NamedTuple):
    """What was read of a large tensor before somebody else used it up.

    Attributes:
        shape: Of the tensor.
        numbers: `EXACT`, as a vector.
        sample: Some of its elements, as a vector.
    """

    shape: tuple[int, ...]
    numbers: Tensor
    sample: Tensor


def read(tensor: Tensor, kernels: Kernels) -> tuple[Tensor, Tensor]:
    """Returns the numbers and the sample of a `Reading`."""
    tensor = widened(tensor)
    return exact([tensor], kernels)[0], sample_of(tensor, kernels.take)


def exact(tensors: Sequence[Tensor], kernels: Kernels) -> Tensor:
    """Returns `EXACT` of each tensor, as lines."""
    return kernels.of_each(_exact(kernels), tensors)


@functools.cache
def _exact(kernels: Kernels) -> Callable[[Sequence[Tensor]], Tensor]:
    return partial(_exact_with, kernels)


def _exact_with(kernels: Kernels, tensors: Sequence[Tensor]) -> Tensor:
    found = kernels.in_turn([partial(kernels.sums, tensor) for tensor in tensors])
    low, high, total, squares = (
        stacked([numbers[place] for numbers in found]) for place in range(4)
    )
    top = ops.maximum(-low, high)
    # A sum is not finite if any element is not; the extremes may pass over a NaN.
    fine = ops.isfinite(total) & ((top == 0) | ((top > SMALLEST) & (top < LARGEST)))

    def plain() -> Tensor:
        none = ops.zeros_like(total)
        sums = (low, high, total, squares, none, none, none, none)
        return ops.stack(sums, axis=1)

    def careful() -> Tensor:
        return ops.stack([_careful(tensor) for tensor in tensors])

    return ops.cond(ops.all(fine), plain, careful)


def _careful(tensor: Tensor) -> Tensor:
    """The same of the finite elements, divided by a power of two before squaring."""
    finite = ops.isfinite(tensor)
    nothing, infinite = ops.zeros_like(tensor), ops.full_like(tensor, math.inf)
    numbers = ops.where(finite, tensor, nothing)
    exponent = exponent_of(ops.max(ops.abs(numbers)))
    shrunk = numbers * ops.power(ops.ones_like(exponent) * 2, -exponent)
    kinds = (ops.isnan(tensor), tensor == math.inf, tensor == -math.inf)
    return stacked(
        [
            ops.min(ops.where(finite, tensor, infinite)),
            ops.max(ops.where(finite, tensor, -infinite)),
            ops.sum(shrunk),
            ops.sum(ops.square(shrunk)),
            exponent,
            *(ops.sum(ops.cast(kind, "float32")) for kind in kinds),
        ]
    )
