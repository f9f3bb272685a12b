"""Every operation that torch dispatches, below autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .._operations import See, canonical

COMPILES_FIRST = False


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
        inputs = _floats((args, kwargs), scalars)  # before: it may work in place
        result = func(*args, **(kwargs or {}))
        self._see(name, inputs, _floats(result, ()))
        return result


def _floats(structure: Any, scalars: Any) -> list[np.ndarray]:
    found = []
    for leaf in tree_leaves(structure):
        if torch.is_tensor(leaf) and leaf.is_floating_point():
            value = leaf.detach().cpu()
            if value.dtype == torch.bfloat16:  # which NumPy does not know
                value = value.float()
            found.append(value.numpy().copy())
        elif isinstance(leaf, scalars) and not isinstance(leaf, bool):
            found.append(np.asarray(leaf, "float64"))
    return found
