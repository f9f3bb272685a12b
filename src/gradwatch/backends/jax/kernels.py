"""Measuring tensors on JAX: natively, or with operations of its own."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...native import TYPES, TensorLayout, address, library
from .._kernels import BaseKernels
from .._protocol import Parts, Tensor
from .._recompute import recompute

COLUMNS, BUCKETS = 11, 128
"""Numbers of a row and of a histogram."""
_HANDLERS = ("GwMeasure", "GwSample", "GwMoves", "GwNorms")


class JaxKernels(BaseKernels):
    """Operations of JAX, whose steps are always compiled by XLA."""

    can_branch = False

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

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Returns the elements at these indices, unchecked."""
        return tensor.at[indices].get(mode="promise_in_bounds")


class JaxSweep:
    """Measures tensors with calls from inside the compiled step; see `Sweep`.

    A call gets the detail as a number and does nothing in a step that is not recorded:
    one compiled step serves all of them. JAX has no float64, so a result is the bits of
    one, as pairs of uint32.
    """

    gated = True

    @classmethod
    def or_none(cls) -> JaxSweep | None:
        """Returns a new one; None where it cannot be used, or tensors are not here."""
        if jax.default_backend() != "cpu" or library() is None:
            return None
        _register()
        return cls()

    def measure(
        self, tensors: Sequence[Tensor], detail: Any, scale: Tensor | None = None
    ) -> tuple[Parts, Sequence[Tensor]]:
        """Returns rows and counts, and the tensors."""
        count = len(tensors)
        results = (_bits(count, 2 * COLUMNS), _bits(count, BUCKETS))
        rows, counts = _call("GwMeasure", results, detail, tensors, scale=scale)
        return {"rows": rows, "counts": counts}, tensors

    def sample(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns copies of blocks of the tensors, as bytes."""
        tensors = [_readable(tensor) for tensor in tensors]
        layout = TensorLayout([(tensor.size, str(tensor.dtype)) for tensor in tensors])
        result = jax.ShapeDtypeStruct((layout.sealed_bytes,), jnp.uint8)  # type: ignore[no-untyped-call]
        return _call("GwSample", result, detail, tensors)

    def moves(self, sample: Tensor, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns norms and their standard errors."""
        return _call("GwMoves", _bits(len(tensors), 8), detail, [sample, *tensors])

    def norms(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns the norm of each tensor."""
        return _call("GwNorms", _bits(len(tensors), 2), detail, tensors)


@functools.cache
def _register() -> None:
    """Makes the handlers known to XLA, once."""
    for name in _HANDLERS:
        function = ctypes.CFUNCTYPE(ctypes.c_void_p)(address(name))
        capsule = jax.ffi.pycapsule(function)  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")


def _bits(count: int, width: int) -> Any:
    return jax.ShapeDtypeStruct((count, width), jnp.uint32)  # type: ignore[no-untyped-call]


def _call(
    name: str,
    results: Any,
    detail: Any,
    tensors: Sequence[Tensor],
    scale: Tensor | None = None,
) -> Any:
    scale = 1.0 if scale is None else scale
    controls = jnp.stack([jnp.asarray(n, jnp.float32) for n in (scale, detail)])
    call: Any = jax.ffi.ffi_call(name, results)
    return call(controls, *map(_readable, tensors))


def _readable(tensor: Tensor) -> Tensor:
    known = str(tensor.dtype) in (*TYPES, "uint8")
    return tensor if known else tensor.astype(np.float32)


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
_CALLS = ("jit", "pjit")
_HEAVY = frozenset(
    [
        *("conv_general_dilated", "dot_general", "cond", "while", "scan", "sort"),
        *("cholesky", "triangular_solve", "eigh", "qr", "svd", "lu", "fft"),
    ]
)
"""Primitives that are not computed twice."""


def _is_rounded_alone(tensor: Tensor) -> bool:
    """Returns whether a tensor is rounded by itself, whatever reads it."""
    return _factors(tensor) is None


def _factors(tensor: Tensor) -> Sequence[Tensor] | None:
    equation = getattr(tensor, "parent", None)
    if equation is None or len(equation.outvars) != 1 or equation.effects:
        return None
    inputs: Sequence[Tensor] = equation.in_tracers
    name = equation.primitive.name
    if name in _PRODUCTS or (name in _THROUGH and not _is_rounded_alone(inputs[0])):
        return inputs
    if name in _CALLS and _ends_in_product(equation.params["jaxpr"].jaxpr):
        return inputs
    return None


def _ends_in_product(function: Any) -> bool:
    """Returns whether a function within the step, such as an activation, does."""
    if len(function.outvars) != 1 or not _is_light(function):
        return False
    makers = {id(out): made for made in function.eqns for out in made.outvars}
    equation = makers.get(id(function.outvars[0]))
    while equation is not None and equation.primitive.name in _THROUGH:
        equation = makers.get(id(equation.invars[0]))
    if equation is None or equation.primitive.name not in _CALLS:
        return equation is not None and equation.primitive.name in _PRODUCTS
    return _ends_in_product(equation.params["jaxpr"].jaxpr)


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
    if not isinstance(tensor, jax.core.Tracer):
        return tensor
    return jax.lax.optimization_barrier(tensor)  # type: ignore[no-untyped-call]
