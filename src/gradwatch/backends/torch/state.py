"""What a pass could change outside of Keras, and small services."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .._protocol import Sparse, Tensor


def raw_state(layers: Sequence[Any]) -> list[Any]:
    """Returns the buffers of wrapped torch modules, which Keras does not protect."""
    return [b for layer in layers for b in getattr(layer, "buffers", list)()]


@contextlib.contextmanager
def restored(raw: Sequence[Any]) -> Iterator[None]:
    """Gives buffers their values, and torch its random state, back."""
    before = [buffer.clone() for buffer in raw]
    with torch.random.fork_rng():
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(raw, before, strict=True):
                    buffer.copy_(value)


def protected(layers: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """Protects what a pass could change outside of Keras's own variables."""
    return restored(raw_state(layers))


def synchronise(model: Any) -> None:
    """Nothing to do: variables always hold their values."""


def dense(gradient: Sparse) -> Tensor:
    """Returns all rows of a sparse gradient."""
    zeros = torch.zeros(gradient.shape, dtype=gradient.values.dtype)
    return zeros.index_add(0, gradient.indices, gradient.values)


def is_eager(tensor: Tensor) -> bool:
    """Whether the tensor has a value now: in torch it always has."""
    del tensor
    return True
