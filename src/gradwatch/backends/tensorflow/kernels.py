"""The reductions of a training step that TensorFlow can do faster than Keras."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.ops import control_flow_util

from .._kernels import BaseKernels
from .._protocol import Tensor
from .._recompute import recompute

_TILE = (32, 128)
"""Rows and elements that XLA reduces in one loop with the operation that made them."""


@dataclass(frozen=True)
class TFKernels(BaseKernels):
    """The reductions of TensorFlow.

    Attributes:
        xla: True if XLA compiles the step.
    """

    xla: bool = False

    @property
    def can_branch(self) -> bool:
        """True without XLA, which would not update the weights of the step in place."""
        return not self.xla

    def apart(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Recomputes products that XLA rounds together with the sums they are in."""
        if not self.xla:
            return list(tensors)
        return recompute(tensors, _factors, _remake, _hidden)

    def total(self, tensor: Tensor) -> Tensor:
        """Returns the sum; XLA does not write to memory what is only summed."""
        if self.xla:
            return _in_tiles(tensor, tf.reduce_sum)[0]
        return tf.reduce_sum(tensor)

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Sweeps once; squaring first would write the squares to memory."""
        if self.xla:
            return self.total(tf.square(tensor))
        return 2 * tf.nn.l2_loss(tensor)

    def sums(self, tensor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sweeps four times; the last three find the tensor in the cache."""
        reductions = (tf.reduce_min, tf.reduce_max, tf.reduce_sum)
        if self.xla:
            low, high, total = _in_tiles(tensor, *reductions)
            return low, high, total, self.sum_of_squares(tensor)
        sweeps = [functools.partial(reduce, tensor) for reduce in reductions]
        low, high, total, squares = self.in_turn(
            [*sweeps, functools.partial(self.sum_of_squares, tensor)]
        )
        return low, high, total, squares

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns the exponents, from the bits."""
        bits = tf.bitcast(tensor, tf.int32)
        return (tf.bitwise.right_shift(bits, 23) & 255) - 127

    def count(self, numbers: Tensor, length: int) -> Tensor:
        """Counts by the raw operation: `tf.math.bincount` does not compile with XLA."""
        counts = tf.raw_ops.DenseBincount(
            input=numbers, size=length, weights=tf.zeros((0,), tf.int32)
        )
        return tf.cast(counts, tf.float32)

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Gathers; Keras would first look for indices counted from the end."""
        return tf.gather(tensor, indices)

    def in_turn(self, makers: Sequence[Callable[[], Any]]) -> list[Any]:
        """Runs one after the other: what each reads again is still in the cache."""
        made: list[Any] = []
        for make in makers:
            with tf.control_dependencies(tf.nest.flatten(made[-1]) if made else []):
                made.append(make())
        return made

    def shared(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Traces a function of vectors once for all lengths, and calls the trace."""
        flat = [tf.reshape(tensor, (-1,)) for tensor in tensors]
        plain = all(tensor.dtype == tf.float32 for tensor in flat)
        if tf.executing_eagerly() or not plain or self.xla:
            return function(*flat)
        return _traced(function, len(flat))(*flat)

    def of_each(
        self, function: Callable[..., Tensor], *tensors: Sequence[Tensor]
    ) -> Tensor:
        """Goes one by one, with calls of one function that is traced once."""
        alone = _alone(function)
        rows = zip(*tensors, strict=True)
        makers = [functools.partial(self.shared, alone, *row) for row in rows]
        return tf.concat(self.in_turn(makers), 0)

    def dense(self, gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Adds up repeated rows of a sparse gradient, whose shape is often unknown."""
        return tf.ensure_shape(tf.convert_to_tensor(gradient), shape)


def in_xla() -> bool:
    """Returns whether the function that is being traced will be compiled by XLA.

    False for a function whose concrete function is asked for without calling it: then
    the numbers are the same, but XLA may round the training otherwise.
    """
    graph = tf_ops.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def after(tensor: Tensor, numbers: Tensor) -> Tensor:
    """Returns the same tensor bit for bit, which XLA computes after the numbers.

    Saves memory: without it, XLA keeps every gradient until the last one is read. A
    barrier is gone when XLA decides on the order of operations; this is arithmetic.
    """
    if tensor.dtype != tf.float32:
        return gen_xla_ops.xla_optimization_barrier([tensor, numbers])[0]
    bits = tf.bitcast(tf.reduce_sum(numbers), tf.int32)
    nothing = tf.bitwise.bitwise_xor(bits, bits)
    same = tf.bitwise.bitwise_xor(tf.bitcast(tensor, tf.int32), nothing)
    return tf.bitcast(same, tf.float32)


# what XLA rounds together -------------------------------------------------------------

_PRODUCTS = frozenset(
    [
        *("Div", "DivNoNan", "EluGrad", "Exp", "InvGrad", "LeakyReluGrad", "Mul"),
        *("MulNoNan", "Pow", "RealDiv", "ReciprocalGrad", "RsqrtGrad", "SeluGrad"),
        *("SigmoidGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad", "Square"),
        *("SquaredDifference", "TanhGrad"),
    ]
)
"""Operations that XLA may round together with a sum that uses them."""
_SAME = frozenset(["Identity", "IdentityN", "PreventGradient", "StopGradient"])
_THROUGH = frozenset(
    [
        *("BroadcastTo", "EnsureShape", "ExpandDims", "Neg", "Reshape", "Squeeze"),
        *("Tile", "Transpose"),
    ]
)
"""Operations that a product passes through without being rounded."""


def is_rounded_alone(tensor: Tensor) -> bool:
    """Returns whether a tensor is rounded by itself, whatever reads it."""
    return _factors(tensor) is None


def _factors(tensor: Tensor) -> Sequence[Tensor] | None:
    operation = tensor.op
    inputs: Sequence[Tensor] = operation.inputs
    if operation.type in _SAME:
        inputs = [inputs[tensor.value_index]]
    through = operation.type in _SAME or operation.type in _THROUGH
    if operation.type in _PRODUCTS or (through and not is_rounded_alone(inputs[0])):
        return inputs
    return None


def _remake(tensor: Tensor, inputs: list[Tensor]) -> Tensor:
    operation = tensor.op
    if operation.type in _SAME:
        return inputs[0]
    definition = operation.op_def
    names = [argument.name for argument in definition.input_arg]
    arguments: dict[str, Any] = dict(zip(names, inputs, strict=True))
    inferred = {
        attribute
        for argument in definition.input_arg
        for attribute in (argument.type_attr, argument.number_attr)
    }
    for attribute in definition.attr:
        if attribute.name not in inferred:
            arguments[attribute.name] = operation.get_attr(attribute.name)
    return getattr(tf.raw_ops, operation.type)(**arguments)


def _hidden(tensor: Tensor) -> Tensor:
    if tensor.op.type == "Const":
        return tensor
    return gen_xla_ops.xla_optimization_barrier([tensor])[0]


# reductions ---------------------------------------------------------------------------


def _in_tiles(tensor: Tensor, *reductions: Callable[..., Tensor]) -> list[Tensor]:
    """Reduces a tensor in two stages.

    For a long reduction XLA first writes all elements to memory, and into that of
    another step: four times as slow. The barrier keeps it from merging the stages.
    """
    flat = tf.reshape(tensor, (-1,))
    size = flat.shape[0]
    whole = 0 if size is None else size - size % math.prod(_TILE)
    if not whole:
        return [reduce(flat) for reduce in reductions]
    tiles = tf.reshape(flat[:whole], (-1, *_TILE))
    parts = [tf.reshape(reduce(tiles, axis=1), (-1,)) for reduce in reductions]
    if whole < size:
        parts = [
            tf.concat([part, reduce(flat[whole:])[None]], 0)
            for part, reduce in zip(parts, reductions, strict=True)
        ]
    stages = gen_xla_ops.xla_optimization_barrier(parts)
    return [reduce(part) for part, reduce in zip(stages, reductions, strict=True)]


@functools.cache
def _alone(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *tensors: function(*([tensor] for tensor in tensors))


@functools.cache
def _traced(function: Callable[..., Tensor], arguments: int) -> Any:
    signature = [tf.TensorSpec((None,), tf.float32)] * arguments
    return tf.function(function, autograph=False, input_signature=signature)
