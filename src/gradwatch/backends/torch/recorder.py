"""Marks tensors while a forward pass runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from .._protocol import Leaf, Tensor


class Recorder:
    """Marks tensors by a clone that is part of the graph."""

    def __init__(self) -> None:
        self.leaves: dict[Leaf, Tensor] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self.stack: list[str] = [""]
        self.thawed: list[Tensor] = []

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """A parameter is its own leaf: wrapped torch modules read it directly."""
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        marked = tensor if is_parameter else tensor.clone()
        if not marked.requires_grad:
            marked.requires_grad_(True)
            if is_parameter:
                self.thawed.append(marked)
        tensor = self.leaves[leaf] = marked
        if keep:
            self.kept[leaf] = tensor.detach()
        return tensor

    def can_leave(self, tensor: Tensor) -> bool:
        """Inside `vmap`, tensors are wrapped and end with it."""
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)

    def is_dense(self, tensor: object) -> bool:
        """Sparse layouts are left alone."""
        return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided

    @contextlib.contextmanager
    def place(self, address: str) -> Iterator[None]:
        """The stack of layers being called."""
        self.stack.append(address)
        try:
            yield
        finally:
            self.stack.pop()

    def forget(self) -> None:
        """Starts over."""
        self.leaves.clear()
        self.kept.clear()

    def freeze_again(self) -> None:
        """Gives frozen parameters back as they were."""
        for parameter in self.thawed:
            parameter.requires_grad_(False)
