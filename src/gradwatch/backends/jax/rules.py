"""Gradients that are not those of the function."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .._protocol import Tensor


@jax.custom_vjp
def positive_gradient(tensor: Tensor) -> Tensor:
    """Returns the tensor; of its gradient only what is positive goes on."""
    return tensor


def _forward(tensor: Tensor) -> tuple[Tensor, None]:
    return tensor, None


def _backward(residual: None, gradient: Tensor) -> tuple[Tensor]:
    del residual
    return (jnp.maximum(gradient, 0),)


positive_gradient.defvjp(_forward, _backward)
