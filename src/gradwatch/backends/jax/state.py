"""What a pass could change outside of Keras, and small services."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._keras import jax_state_is_synced
from .._protocol import Sparse, Tensor


def raw_state(layers: Sequence[Any]) -> list[Any]:
    """Returns nothing: a pure function has no state."""
    del layers
    return []


def restored(raw: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """Nothing to do: a pure function changes nothing."""
    del raw
    return contextlib.nullcontext()


def protected(layers: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """Nothing to do: a pure function changes nothing."""
    return restored(layers)


def synchronise(model: Any) -> None:
    """Inside `fit` the variables hold no values until they are fetched."""
    if hasattr(model, "jax_state_sync") and not jax_state_is_synced(model):
        model.jax_state_sync()


def chance() -> list[np.ndarray]:
    """Returns nothing: Keras draws from seeds that are variables."""
    return []


def set_chance(states: Sequence[np.ndarray]) -> None:
    """Nothing to do: there is no such state."""
    del states


def dense(gradient: Sparse) -> Tensor:
    """Returns all rows of a sparse gradient."""
    zeros = jnp.zeros(gradient.shape, gradient.values.dtype)
    return zeros.at[gradient.indices].add(gradient.values)


def is_eager(tensor: Tensor) -> bool:
    """Whether the tensor has a value now."""
    return not isinstance(tensor, jax.core.Tracer)
