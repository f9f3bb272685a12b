"""What a compiled step can be asked for without computing anything else than before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from .._again import again
from .._protocol import Tensor

_PRODUCTS = frozenset(
    [
        "Div",
        "DivNoNan",
        "EluGrad",
        "Exp",
        "InvGrad",
        "LeakyReluGrad",
        "Mul",
        "MulNoNan",
        "Pow",
        "RealDiv",
        "ReciprocalGrad",
        "RsqrtGrad",
        "SeluGrad",
        "SigmoidGrad",
        "SoftplusGrad",
        "SoftsignGrad",
        "SqrtGrad",
        "Square",
        "SquaredDifference",
        "TanhGrad",
    ]
)
"""What XLA may round together with a sum that uses it."""
_SAME = frozenset(["Identity", "IdentityN", "PreventGradient", "StopGradient"])
_THROUGH = frozenset(
    [
        "BroadcastTo",
        "EnsureShape",
        "ExpandDims",
        "Neg",
        "Reshape",
        "Squeeze",
        "Tile",
        "Transpose",
    ]
)


def apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Returns the same tensors, for reading only."""
    return again(tensors, _inputs, _again, _keep)


def is_apart(tensor: Tensor) -> bool:
    """Whether a tensor is rounded by itself, whoever reads it."""
    return _inputs(tensor) is None


def _inputs(tensor: Tensor) -> Sequence[Tensor] | None:
    made_by = tensor.op
    inputs: Sequence[Tensor] = made_by.inputs
    if made_by.type in _SAME:
        inputs = [inputs[tensor.value_index]]
    through = made_by.type in _SAME or made_by.type in _THROUGH
    if made_by.type in _PRODUCTS or (through and not is_apart(inputs[0])):
        return inputs
    return None


def _again(tensor: Tensor, inputs: list[Tensor]) -> Tensor:
    made_by = tensor.op
    if made_by.type in _SAME:
        return inputs[0]
    definition = made_by.op_def
    names = [argument.name for argument in definition.input_arg]
    given: dict[str, Any] = dict(zip(names, inputs, strict=True))
    known = {
        attribute
        for argument in definition.input_arg
        for attribute in (argument.type_attr, argument.number_attr)
    }
    for attribute in definition.attr:
        if attribute.name not in known:
            given[attribute.name] = made_by.get_attr(attribute.name)
    return getattr(tf.raw_ops, made_by.type)(**given)


def _keep(tensor: Tensor) -> Tensor:
    if tensor.op.type == "Const":
        return tensor
    return gen_xla_ops.xla_optimization_barrier([tensor])[0]
