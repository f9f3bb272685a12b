"""Marks tensors while a forward pass is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import get_opaque_trace_state

from .._protocol import Leaf, Tensor


def _level() -> Any:
    """Tells one trace from another: the outer function from a loop's body."""
    return get_opaque_trace_state(convention="nnx")  # type: ignore[no-untyped-call]


class Recorder:
    """Adds a zero at each leaf; without zeros given, only learns which there are."""

    def __init__(self, zeros: dict[Leaf, Tensor] | None, places: list[str]) -> None:
        self.zeros = zeros
        self.places = places
        self.leaves: dict[Leaf, Any] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self._level = _level()

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """The gradient at a tensor is the gradient of what is added to it."""
        self.leaves[leaf] = jax.typeof(tensor)
        if self.zeros is not None:
            tensor = tensor + self.zeros[leaf]
        if keep:
            self.kept[leaf] = tensor
        return tensor

    def can_leave(self, tensor: Tensor) -> bool:
        """Inside a scan, a branch, a map or a nested jit the trace is another one."""
        del tensor
        return bool(_level() == self._level)

    def is_dense(self, tensor: object) -> bool:
        """Sparse arrays of JAX are another class."""
        return isinstance(tensor, jax.Array)

    @contextlib.contextmanager
    def place(self, address: str) -> Iterator[None]:
        """The name stack of an equation tells its layer; names must not hold "/"."""
        self.places.append(address)
        with jax.named_scope(f"gw{len(self.places) - 1}"):
            yield
