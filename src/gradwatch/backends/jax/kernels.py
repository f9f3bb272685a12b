"""The reductions of a training step for which JAX has a faster word than Keras."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._protocol import Tensor
from .apart import apart as _apart


def total(tensor: Tensor) -> Tensor:
    """One loop with what makes the elements."""
    return jnp.sum(tensor)


def sum_of_squares(tensor: Tensor) -> Tensor:
    """A dot product is one sweep, and is not fused into a slow loop with others."""
    return jnp.vdot(tensor, tensor)


def all_squares(tensors: Sequence[Tensor]) -> Tensor:
    """One after the other."""
    found = in_turn([functools.partial(sum_of_squares, t) for t in tensors])
    return jnp.stack([square.astype(jnp.float32) for square in found])


def takes_lists() -> bool:
    """Many small tensors are better packed together."""
    return False


def differences(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[Tensor]:
    """How far each tensor moved, or as far back."""
    return [new - old for old, new in zip(before, after, strict=True)]


def sums(tensor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the smallest, the largest, the sum, and the sum of squares."""
    return jnp.min(tensor), jnp.max(tensor), jnp.sum(tensor), sum_of_squares(tensor)


def exponents(tensor: Tensor) -> Tensor:
    """Reads them from the bits: exact, where a logarithm may round."""
    bits = jax.lax.bitcast_convert_type(tensor, jnp.int32)
    return ((bits >> 23) & 255) - 127


def count(numbers: Tensor, length: int) -> Tensor:
    """Returns how often each of 0 … length-1 occurs."""
    return jnp.bincount(numbers, length=length).astype(jnp.float32)


def apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Whoever reads a tensor must not change how it is computed."""
    return _apart(tensors)


def barrier(tensors: Any) -> Any:
    """Tells XLA that whoever uses one of these waits for all of them."""
    return jax.lax.optimization_barrier(tensors)  # type: ignore[no-untyped-call]


def in_turn(makers: Sequence[Callable[[], Any]]) -> list[Any]:
    """Nothing to arrange: XLA arranges what it compiles."""
    return [make() for make in makers]


def can_branch() -> bool:
    """A branch keeps XLA from updating the weights of the step in place."""
    return False


def take(tensor: Tensor, places: Any) -> Tensor:
    """All places are there: nothing to check."""
    return tensor.at[places].get(mode="promise_in_bounds")


def shared(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Nothing to share: shapes are always known."""
    return function(*tensors)


def of_each(function: Callable[..., Tensor], *tensors: Sequence[Tensor]) -> Tensor:
    """All at once: one question, whether all are well, instead of many."""
    return function(*tensors)


def dense(gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Gradients are dense here."""
    del shape
    return gradient
