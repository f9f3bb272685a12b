"""Writes down the operations of a forward pass, to see where gradients are cut."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .._flow import Cut, Step, operation
from .._protocol import Tensor
from .recorder import Recorder

_ZERO_GRADIENT = {"floor", "ceil", "round", "sign", "trunc", "sgn", "floor_divide"}


class Log(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each operation as a step; keeps tensors, so that ids stay unique."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder
        self.steps: list[Step] = []
        self._alive: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1].rstrip("_")
        inputs = [t for t in tree_leaves((args, kwargs)) if torch.is_tensor(t)]
        if name.endswith("_like") or name.startswith("new_"):
            inputs = []  # these read the shape, not the values
        for tensor in tree_leaves(out):
            if torch.is_tensor(tensor):
                cut = _cut(name, tensor, self.recorder.stack[-1])
                self.steps.append(Step([id(t) for t in inputs], id(tensor), cut))
        self._alive.append((inputs, out))
        return out


def _cut(name: str, tensor: Tensor, place: str) -> Cut | None:
    if name == "detach":
        return Cut("stop_gradient", "stop_gradient", place)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return Cut("integer", operation(name), place)
    if name in _ZERO_GRADIENT:
        return Cut("not_differentiable", operation(name), place)
    return None
