"""The reductions of a backend, and small helpers: types, sizes, exponents."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from keras import ops

from ._pack import WHOLE

Tensor = Any

# Squares of float32 numbers in here neither overflow when a hundred million of them are
# added, nor vanish beside each other. Everything else is scaled first.
SMALLEST, LARGEST = 1e-15, 1e14
LAST = 126.0
"""2 ** 127 is the largest power of two that is a float32."""


class Kernels(Hashable, Protocol):
    """Reductions that a backend does faster than `keras.ops` can."""

    @property
    def packs(self) -> bool:
        """True if many small tensors are faster packed into one than one by one."""

    @property
    def can_branch(self) -> bool:
        """True if the step may branch on a number without slowing down."""

    def apart(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns equal tensors; reading these does not change the step's rounding."""

    def total(self, tensor: Tensor) -> Tensor:
        """Returns the sum of all elements, as a scalar."""

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Returns the sum of the squares, as a scalar."""

    def sums(self, tensor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the smallest, the largest, the sum, and the sum of squares."""

    def differences(
        self, before: Sequence[Tensor], after: Sequence[Tensor]
    ) -> list[Tensor]:
        """Returns how far each tensor moved, or as far back; may use up `before`."""

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns floor(log2(|x|)) of each float32 as int32, from its bits."""

    def count(self, numbers: Tensor, length: int) -> Tensor:
        """Returns how often each of 0 … length-1 occurs."""

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Returns the rows at these indices, which are all valid."""

    def in_turn(self, makers: Sequence[Callable[[], Any]]) -> list[Any]:
        """Returns what the makers make, one after the other."""

    def shared(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Calls a function of vectors, which may be traced once for all lengths."""

    def of_each(
        self, function: Callable[..., Tensor], *tensors: Sequence[Tensor]
    ) -> Tensor:
        """Calls a function of lists of tensors, which gives one row per tensor.

        The same function must be the same object each time.
        """


def unless(
    fine: Tensor, plain: Tensor, careful: Callable[[], Tensor], kernels: Kernels
) -> Tensor:
    """Returns `plain`, or else what `careful` makes of large tensors.

    For a branch XLA copies what goes into it, and for a loop it does not: there it is a
    loop that runs once or not at all.
    """
    if kernels.can_branch:
        return ops.cond(fine, lambda: plain, careful)
    _, result = ops.while_loop(
        lambda goes_on, _: goes_on,
        lambda goes_on, _: (ops.zeros_like(goes_on), careful()),
        (ops.logical_not(fine), plain),
    )
    return result


def is_small(tensor: Tensor) -> bool:
    """Returns whether a tensor is measured whole, together with others."""
    shape = tuple(tensor.shape)
    wide = str(tensor.dtype).endswith("64")
    return None not in shape and not wide and math.prod(shape) <= WHOLE


def size_of(tensor: Tensor) -> Tensor:
    """Returns the number of elements, as a float32 scalar."""
    shape = tuple(tensor.shape)
    if None not in shape:
        return ops.convert_to_tensor(float(math.prod(shape)), "float32")
    return ops.cast(ops.size(tensor), "float32")


def widened(tensor: Tensor) -> Tensor:
    """Returns half precision as float32; float64 stays what it is."""
    return tensor if str(tensor.dtype).endswith("64") else ops.cast(tensor, "float32")


def along(condition: Tensor) -> Tensor:
    """Returns how often a condition holds in each row."""
    return ops.sum(ops.cast(condition, "float32"), axis=1)


def stacked(scalars: Sequence[Tensor]) -> Tensor:
    """Returns scalars as one float32 vector."""
    return ops.stack([ops.cast(scalar, "float32") for scalar in scalars])


def exponent_of(top: Tensor) -> Tensor:
    """Returns the exponents of magnitudes, as floats; 0 for what has none."""
    usable = ops.logical_and(ops.isfinite(top), top > 0)
    safe = ops.where(usable, top, ops.ones_like(top))
    last = 1022.0 if str(top.dtype).endswith("64") else LAST
    return ops.clip(ops.floor(ops.log2(safe)), -last, last)
