"""The reductions of a training step that TensorFlow can say faster than Keras."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from .._protocol import Tensor
from .apart import apart as _apart

_TILE = (32, 128)
"""XLA reduces so many lines of so many elements in one loop with what made them."""


def total(tensor: Tensor) -> Tensor:
    """The sum; XLA does not write to memory what is summed only."""
    if not in_xla():
        return tf.reduce_sum(tensor)
    return _in_tiles(tensor, tf.reduce_sum)[0]


def sum_of_squares(tensor: Tensor) -> Tensor:
    """One sweep; squaring first would write the squares to memory."""
    return total(tf.square(tensor)) if in_xla() else 2 * tf.nn.l2_loss(tensor)


def all_squares(tensors: Sequence[Tensor]) -> Tensor:
    """One after the other."""
    found = in_turn([functools.partial(sum_of_squares, t) for t in tensors])
    return tf.stack([tf.cast(square, tf.float32) for square in found])


def takes_lists() -> bool:
    """Many small tensors are better packed together."""
    return False


def differences(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[Tensor]:
    """How far each tensor moved, or as far back."""
    return [new - old for old, new in zip(before, after, strict=True)]


def sums(tensor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four sweeps, of which the last three find the tensor in the cache."""
    if in_xla():
        low, high, sum_ = _in_tiles(tensor, tf.reduce_min, tf.reduce_max, tf.reduce_sum)
        return low, high, sum_, sum_of_squares(tensor)
    low, high, total, squares = in_turn(
        [
            lambda: tf.reduce_min(tensor),
            lambda: tf.reduce_max(tensor),
            lambda: tf.reduce_sum(tensor),
            lambda: sum_of_squares(tensor),
        ]
    )
    return low, high, total, squares


def _in_tiles(tensor: Tensor, *reductions: Callable[..., Tensor]) -> list[Tensor]:
    """Reduces a tensor in two stages.

    For a long reduction XLA first writes all elements to memory, and into that of
    another step: four times as slow. The barrier keeps it from making one of the two.
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
    stages = zip(barrier(*parts), reductions, strict=True)
    return [reduce(part) for part, reduce in stages]


def exponents(tensor: Tensor) -> Tensor:
    """Reads them from the bits: exact, where a logarithm may round."""
    bits = tf.bitcast(tensor, tf.int32)
    return (tf.bitwise.right_shift(bits, 23) & 255) - 127


def count(numbers: Tensor, length: int) -> Tensor:
    """`bincount` does not compile with XLA, where adding up segments does."""
    if in_xla():
        ones = tf.ones_like(numbers, tf.float32)
        return tf.math.unsorted_segment_sum(ones, numbers, length)
    counts = tf.math.bincount(numbers, minlength=length, maxlength=length)
    return tf.cast(counts, tf.float32)


def in_xla() -> bool:
    """Whether what is being traced will be compiled by XLA.

    TensorFlow tells nobody inside a function, so the functions being traced are looked
    up among the callers.
    """
    import sys

    frame = sys._getframe(1)
    while frame is not None:
        function = frame.f_locals.get("self")
        if getattr(function, "_jit_compile", False) is True:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def apart(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Whoever reads a tensor must not change how XLA computes it."""
    return _apart(tensors) if in_xla() else list(tensors)


def barrier(*tensors: Tensor) -> list[Tensor]:
    """Tells XLA that whoever uses one of these waits for all of them."""
    return list(gen_xla_ops.xla_optimization_barrier(tensors))


def after(tensor: Tensor, numbers: Tensor) -> Tensor:
    """Returns the same tensor bit for bit, which XLA computes after the numbers.

    A barrier is gone when XLA decides on the order; this is arithmetic to it.
    """
    if tensor.dtype != tf.float32:
        return barrier(tensor, numbers)[0]
    bits = tf.bitcast(tf.reduce_sum(numbers), tf.int32)
    nothing = tf.bitwise.bitwise_xor(bits, bits)
    same = tf.bitwise.bitwise_xor(tf.bitcast(tensor, tf.int32), nothing)
    return tf.bitcast(same, tf.float32)


def in_turn(makers: Sequence[Callable[[], Any]]) -> list[Any]:
    """Runs one after the other, so that what each reads again is still in the cache."""
    made: list[Any] = []
    for make in makers:
        with tf.control_dependencies(tf.nest.flatten(made[-1]) if made else []):
            made.append(make())
    return made


def can_branch() -> bool:
    """XLA would not update the weights of the step in place; others do not mind."""
    return not in_xla()


def take(tensor: Tensor, places: Any) -> Tensor:
    """Keras would first look for places counted from the end."""
    return tf.gather(tensor, places)


def shared(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Traces a function of vectors once for all lengths, and calls what was traced."""
    flat = [tf.reshape(tensor, (-1,)) for tensor in tensors]
    plain = all(tensor.dtype == tf.float32 for tensor in flat)
    if tf.executing_eagerly() or not plain or in_xla():
        return function(*flat)
    return _traced(function, len(flat))(*flat)


def of_each(function: Callable[..., Tensor], *tensors: Sequence[Tensor]) -> Tensor:
    """One by one, as calls of one function that is traced once."""
    alone = _alone(function)
    lines = in_turn(
        [functools.partial(shared, alone, *row) for row in zip(*tensors, strict=True)]
    )
    return tf.concat(lines, 0)


@functools.cache
def _alone(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *tensors: function(*([tensor] for tensor in tensors))


@functools.cache
def _traced(function: Callable[..., Tensor], arguments: int) -> Any:
    signature = [tf.TensorSpec((None,), tf.float32)] * arguments
    return tf.function(function, autograph=False, input_signature=signature)


def dense(gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Repeated rows of a sparse gradient add up; its own shape is often unknown."""
    return tf.ensure_shape(tf.convert_to_tensor(gradient), shape)
