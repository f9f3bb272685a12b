"""What a pass could change outside of Keras, and small services."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
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


def chance() -> list[np.ndarray]:
    """Returns the random state of torch, from which a dropout without a seed draws."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states += torch.cuda.get_rng_state_all()
    return [state.numpy() for state in states]


def set_chance(states: Sequence[np.ndarray]) -> None:
    """Sets the random state of torch; with none, it stays."""
    if not len(states):
        return
    own, *others = [torch.from_numpy(np.array(state)) for state in states]
    torch.set_rng_state(own)
    if torch.cuda.is_available() and len(others) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(others)


def dense(gradient: Sparse) -> Tensor:
    """Returns all rows of a sparse gradient."""
    zeros = torch.zeros(gradient.shape, dtype=gradient.values.dtype)
    return zeros.index_add(0, gradient.indices, gradient.values)


def is_eager(tensor: Tensor) -> bool:
    """Whether the tensor has a value now: in torch it always has."""
    del tensor
    return True
