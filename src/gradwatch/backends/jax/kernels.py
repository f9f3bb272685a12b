"""The reductions of a training step that JAX can do faster than Keras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._kernels import BaseKernels
from .._protocol import Tensor
from .._recompute import recompute


@dataclass(frozen=True)
class JaxKernels(BaseKernels):
    """The reductions of JAX, whose steps are always compiled by XLA."""

    @property
    def can_branch(self) -> bool:
        """False: a branch keeps XLA from updating the weights of the step in place."""
        return False

    def apart(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Recomputes products that XLA rounds together with the sums they are in."""
        return recompute(tensors, _factors, _remake, _hidden)

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Takes a dot product: one sweep, not fused into a slow loop with others."""
        return jnp.vdot(tensor, tensor)

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns the exponents, from the bits."""
        bits = jax.lax.bitcast_convert_type(tensor, jnp.int32)
        return ((bits >> 23) & 255) - 127

    def count(self, numbers: Tensor, length: int) -> Tensor:
        """Returns how often each of 0 … length-1 occurs."""
        return jnp.bincount(numbers, length=length).astype(jnp.float32)

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Returns the rows at these indices, unchecked."""
        return tensor.at[indices].get(mode="promise_in_bounds")


def barrier(tensors: Any) -> Any:
    """Returns the same tensors; users of any of them wait for all of them."""
    return jax.lax.optimization_barrier(tensors)  # type: ignore[no-untyped-call]


# what XLA rounds together -------------------------------------------------------------

_PRODUCTS = frozenset(["div", "exp", "exp2", "integer_pow", "mul", "square"])
"""Primitives that XLA may round together with a sum that uses them."""
_THROUGH = frozenset(
    [
        *("broadcast_in_dim", "copy", "copy_p", "expand_dims", "neg", "reshape"),
        *("rev", "slice", "squeeze", "stop_gradient", "transpose"),
    ]
)
"""Primitives that a product passes through without being rounded."""
_HEAVY = frozenset(
    [
        *("conv_general_dilated", "dot_general", "cond", "while", "scan", "sort"),
        *("cholesky", "triangular_solve", "eigh", "qr", "svd", "lu", "fft"),
    ]
)
"""Primitives that are not computed twice."""


def is_rounded_alone(tensor: Tensor) -> bool:
    """Returns whether a tensor is rounded by itself, whatever reads it."""
    return _factors(tensor) is None


def _factors(tensor: Tensor) -> Sequence[Tensor] | None:
    equation = getattr(tensor, "parent", None)
    if equation is None or len(equation.outvars) != 1 or equation.effects:
        return None
    inputs: Sequence[Tensor] = equation.in_tracers
    name = equation.primitive.name
    if name in _PRODUCTS or (name in _THROUGH and not is_rounded_alone(inputs[0])):
        return inputs
    # A function within the step, such as an activation, may end in a product.
    if name in ("jit", "pjit") and _is_light(equation.params["jaxpr"].jaxpr):
        return inputs
    return None


def _is_light(function: Any) -> bool:
    return all(
        equation.primitive.name not in _HEAVY
        and (
            "jaxpr" not in equation.params or _is_light(equation.params["jaxpr"].jaxpr)
        )
        for equation in function.eqns
    )


def _remake(tensor: Tensor, inputs: list[Tensor]) -> Tensor:
    equation = tensor.parent
    made = equation.primitive.bind(*inputs, **equation.params)
    return made[0] if equation.primitive.multiple_results else made


def _hidden(tensor: Tensor) -> Tensor:
    return barrier(tensor) if isinstance(tensor, jax.core.Tracer) else tensor
