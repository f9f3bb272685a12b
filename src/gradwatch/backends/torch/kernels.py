"""The reductions of a training step that torch can do faster than Keras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._kernels import BaseKernels
from .._protocol import Tensor


@dataclass(frozen=True)
class TorchKernels(BaseKernels):
    """The reductions of torch, which runs operations as they are called."""

    # A dot product is one call; packing a small tensor takes several.
    packs = False

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Sweeps once; squaring first would write the squares to memory."""
        flat = tensor.reshape(-1)
        return torch.dot(flat, flat)

    def sums(self, tensor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sweeps three times: the smallest and the largest come together."""
        low, high = torch.aminmax(tensor)
        return low, high, torch.sum(tensor), self.sum_of_squares(tensor)

    def differences(
        self, before: Sequence[Tensor], after: Sequence[Tensor]
    ) -> list[Tensor]:
        """Subtracts in place: fresh memory costs five times more."""
        kept = list(before)
        torch._foreach_sub_(kept, [tensor.detach() for tensor in after])
        return kept

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns the exponents, from the bits."""
        return ((tensor.view(torch.int32) >> 23) & 255) - 127

    def count(self, numbers: Tensor, length: int) -> Tensor:
        """Returns how often each of 0 … length-1 occurs."""
        return torch.bincount(numbers, minlength=length).to(torch.float32)

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Returns the rows at these indices."""
        return tensor[torch.as_tensor(indices, device=tensor.device)]
