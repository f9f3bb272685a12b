"""Measuring tensors on torch: natively, or with operations of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import torch

from ...native import TYPES, TensorLayout, library
from .._kernels import BaseKernels
from .._protocol import Parts, Tensor


class TorchKernels(BaseKernels):
    """Operations of torch, which runs them as they are called."""

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Sweeps once; squaring first would write the squares to memory."""
        flat = tensor.reshape(-1)
        return torch.dot(flat, flat)

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns the exponents, from the bits."""
        return ((tensor.view(torch.int32) >> 23) & 255) - 127

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Returns the elements at these indices."""
        return tensor[torch.as_tensor(indices, device=tensor.device)]


class TorchSweep:
    """Measures tensors in memory, as the step runs; see `Sweep`.

    The results are arrays of NumPy: nothing has to be read back.
    """

    gated = False

    def __init__(self) -> None:
        self._layouts: dict[tuple[Any, ...], TensorLayout] = {}

    @classmethod
    def or_none(cls) -> TorchSweep | None:
        """Returns a new one; None where it cannot be used, or tensors are not here."""
        here = keras.ops.zeros(()).device.type == "cpu"
        return cls() if here and library() is not None else None

    def measure(
        self, tensors: Sequence[Tensor], detail: int, scale: Tensor | None = None
    ) -> tuple[Parts, Sequence[Tensor]]:
        """Returns rows and counts, and the tensors."""
        layout, pointers, _alive = self._prepared(tensors)
        factor = 1.0 if scale is None else float(scale)
        rows, counts = layout.measure(pointers, factor, histograms=detail >= 2)
        return {"rows": rows, "counts": counts}, tensors

    def sample(self, tensors: Sequence[Tensor], detail: int) -> Any:
        """Returns copies of blocks of the tensors, as bytes."""
        del detail
        layout, pointers, _alive = self._prepared(tensors)
        return layout.sample(pointers)

    def moves(self, sample: Any, tensors: Sequence[Tensor], detail: int) -> Any:
        """Returns norms and their standard errors."""
        del detail
        layout, pointers, _alive = self._prepared(tensors)
        return layout.moves(sample, pointers)

    def norms(self, tensors: Sequence[Tensor], detail: int) -> Any:
        """Returns the norm of each tensor."""
        del detail
        layout, pointers, _alive = self._prepared(tensors)
        return layout.norms(pointers)

    def _prepared(
        self, tensors: Sequence[Tensor]
    ) -> tuple[TensorLayout, list[int], Any]:
        """Returns the layout of tensors, where they are, and what keeps them there."""
        alive = [
            tensor
            if tensor.dtype in _NAMES and tensor.is_contiguous()
            else _readable(tensor)
            for tensor in tensors
        ]
        key = tuple([(tensor.numel(), tensor.dtype) for tensor in alive])
        if key not in self._layouts:
            self._layouts[key] = TensorLayout([(n, _NAMES[dtype]) for n, dtype in key])
        return self._layouts[key], [tensor.data_ptr() for tensor in alive], alive


_NAMES = {getattr(torch, name): name for name in TYPES}
"""The names of the element types that the sweep reads."""


def _readable(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return (tensor if tensor.dtype in _NAMES else tensor.float()).contiguous()
