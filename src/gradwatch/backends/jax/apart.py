"""What a compiled step can be asked for without computing anything else than before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from .._again import again
from .._protocol import Tensor

_PRODUCTS = frozenset(["div", "exp", "exp2", "integer_pow", "mul", "square"])
"""What XLA may round together with a sum that uses it."""
_THROUGH = frozenset(
    [
        "broadcast_in_dim",
        "copy",
        "copy_p",
        "expand_dims",
        "neg",
        "reshape",
        "rev",
        "slice",
        "squeeze",
        "stop_gradient",
        "transpose",
    ]
)
_HEAVY = frozenset(
    [
        "conv_general_dilated",
        "dot_general",
        "cond",
        "while",
        "scan",
        "sort",
        "cholesky",
        "triangular_solve",
        "eigh",
        "qr",
        "svd",
        "lu",
        "fft",
    ]
)
"""What is not done twice."""


def apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns the same tensors, for reading only."""
    return again(tensors, _inputs, _again, _keep)


def is_apart(tensor: Tensor) -> bool:
    """Whether a tensor is rounded by itself, whoever reads it."""
    return _inputs(tensor) is None


def _inputs(tensor: Tensor) -> Sequence[Tensor] | None:
    made_by = getattr(tensor, "parent", None)
    if made_by is None or len(made_by.outvars) != 1 or made_by.effects:
        return None
    inputs: Sequence[Tensor] = made_by.in_tracers
    name = made_by.primitive.name
    if name in _PRODUCTS or (name in _THROUGH and not is_apart(inputs[0])):
        return inputs
    if name in ("jit", "pjit") and _ends_in_product(made_by.params["jaxpr"].jaxpr):
        return inputs
    return None


def _ends_in_product(function: Any) -> bool:
    """Whether a function within the step, such as an activation, does."""
    if len(function.outvars) != 1 or not _is_light(function):
        return False
    result = function.outvars[0]
    made_by = {id(out): made for made in function.eqns for out in made.outvars}
    while (equation := made_by.get(id(result))) is not None:
        name = equation.primitive.name
        if name in ("jit", "pjit"):
            return _ends_in_product(equation.params["jaxpr"].jaxpr)
        if name not in _THROUGH:
            return name in _PRODUCTS
        result = equation.invars[0]
    return False


def _is_light(function: Any) -> bool:
    return all(
        equation.primitive.name not in _HEAVY
        and (
            "jaxpr" not in equation.params or _is_light(equation.params["jaxpr"].jaxpr)
        )
        for equation in function.eqns
    )


def _again(tensor: Tensor, inputs: list[Tensor]) -> Tensor:
    made_by = tensor.parent
    made = made_by.primitive.bind(*inputs, **made_by.params)
    return made[0] if made_by.primitive.multiple_results else made


def _keep(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, jax.core.Tracer):
        return tensor
    return jax.lax.optimization_barrier(tensor)  # type: ignore[no-untyped-call]
