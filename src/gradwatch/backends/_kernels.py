"""Operations of a training step that each framework has in its own form.

The lean way of measuring (`summarise`) uses them where the native sweep cannot go. They
are called while a step is traced (TensorFlow, JAX) or runs (torch).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ._protocol import Tensor


class BaseKernels(ABC):
    """The operations, where nothing is compiled by XLA."""

    can_branch = True
    """True if a branch does not keep the step from updating weights in place."""

    def apart(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns equal tensors; reading these does not change the step's rounding."""
        return list(tensors)

    @abstractmethod
    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Returns the sum of the squares in one sweep, as a scalar."""

    @abstractmethod
    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns floor(log2(|x|)) of each float32 as int32, from its bits.

        Exact, where a logarithm may round.
        """

    @abstractmethod
    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Returns the elements at these indices, which are all valid."""

    def dense(self, gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Returns a gradient with all its rows."""
        del shape
        return gradient
