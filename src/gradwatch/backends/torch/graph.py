"""The operations of a pass, below autograd: for paths, and each one as it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .._flow import Cut, Operation
from .._names import canonical, operation
from .._protocol import See, Tensor

_ZERO_GRADIENT = {"floor", "ceil", "round", "sign", "trunc", "sgn", "floor_divide"}


class Log(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each operation as a step; keeps tensors, so that ids stay unique."""

    def __init__(self, stack: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._stack = stack
        self.steps: list[Operation] = []
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
                cut = _cut(name, tensor, self._stack[-1])
                self.steps.append(Operation([id(t) for t in inputs], id(tensor), cut))
        self._alive.append((inputs, out))
        return out


def _cut(name: str, tensor: Tensor, address: str) -> Cut | None:
    if name == "detach":
        return Cut("stop_gradient", "stop_gradient", address)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return Cut("integer", operation(name), address)
    if name in _ZERO_GRADIENT:
        return Cut("not_differentiable", operation(name), address)
    return None


def traced(function: Callable[[], Any], see: See) -> None:
    """Runs a function, and tells of each operation; seen by this thread only."""
    with _Mode(see), torch.no_grad():
        function()


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, see: See) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._see = see

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        name = canonical(func.overloadpacket.__name__)
        # Of other operations a whole number is an axis or a size.
        scalars: Any = float | int if name in ("divide", "power") else float
        inputs = _floats((args, kwargs), scalars)  # before: it may work in address
        result = func(*args, **(kwargs or {}))
        self._see(name, inputs, _floats(result, ()))
        return result


def _floats(structure: Any, scalars: Any) -> list[np.ndarray]:
    floats = []
    for leaf in tree_leaves(structure):
        if torch.is_tensor(leaf) and leaf.is_floating_point():
            value = leaf.detach().cpu()
            if value.dtype == torch.bfloat16:  # which NumPy does not know
                value = value.float()
            floats.append(value.numpy().copy())
        elif isinstance(leaf, scalars) and not isinstance(leaf, bool):
            floats.append(np.asarray(leaf, "float64"))
    return floats
