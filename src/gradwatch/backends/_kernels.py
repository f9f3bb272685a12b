"""Reductions of a training step, written in `keras.ops`.

A backend overrides those that its framework can do faster. They are called while a step
is traced (TensorFlow, JAX) or runs (torch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from keras import ops

from ._protocol import Tensor


@dataclass(frozen=True)
class BaseKernels:
    """The reductions; equal ones have equal hashes, so that traces can be shared."""

    packs = True
    """True if many small tensors are faster packed into one than one by one."""

    @property
    def can_branch(self) -> bool:
        """True if the step may branch on a number without slowing down."""
        return True

    def apart(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns equal tensors; reading these does not change the step's rounding."""
        return list(tensors)

    def total(self, tensor: Tensor) -> Tensor:
        """Returns the sum of all elements, as a scalar."""
        return ops.sum(tensor)

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Returns the sum of the squares in one sweep, as a scalar."""
        raise NotImplementedError

    def sums(self, tensor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the smallest, the largest, the sum, and the sum of squares."""
        low, high = ops.min(tensor), ops.max(tensor)
        return low, high, self.total(tensor), self.sum_of_squares(tensor)

    def differences(
        self, before: Sequence[Tensor], after: Sequence[Tensor]
    ) -> list[Tensor]:
        """Returns how far each tensor moved, or as far back; may use up `before`."""
        return [new - old for old, new in zip(before, after, strict=True)]

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns floor(log2(|x|)) of each float32 as int32, from its bits.

        Exact, where a logarithm may round.
        """
        raise NotImplementedError

    def count(self, numbers: Tensor, length: int) -> Tensor:
        """Returns how often each of 0 … length-1 occurs."""
        raise NotImplementedError

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Returns the rows at these indices, which are all valid."""
        raise NotImplementedError

    def in_turn(self, makers: Sequence[Callable[[], Any]]) -> list[Any]:
        """Returns what the makers make, one after the other.

        There is nothing to arrange where operations run as they are called (torch), or
        where the compiler arranges them (XLA).
        """
        return [make() for make in makers]

    def shared(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Calls a function of vectors, which may be traced once for all lengths."""
        return function(*tensors)

    def of_each(
        self, function: Callable[..., Tensor], *tensors: Sequence[Tensor]
    ) -> Tensor:
        """Calls a function of lists of tensors, which gives one row per tensor.

        All at once or one by one, whichever is faster. The same function must be the
        same object each time.
        """
        return function(*tensors)

    def dense(self, gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Returns a gradient with all its rows."""
        del shape
        return gradient
