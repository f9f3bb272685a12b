"""Measuring tensors on TensorFlow: natively, or with operations of its own."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.ops import control_flow_util

from ...native import TYPES, TensorLayout, address, library
from .._kernels import BaseKernels
from .._protocol import Parts, Tensor
from .._recompute import recompute

COLUMNS, BUCKETS = 11, 128
"""Numbers of a row and of a histogram."""
_TILE = (32, 128)
"""Rows and elements that XLA reduces in one loop with the operation that made them."""


class TFKernels(BaseKernels):
    """Operations of TensorFlow.

    Args:
        xla: Whether XLA compiles the step, which with a branch would not update the
            weights in place.
    """

    def __init__(self, xla: bool = False) -> None:
        self._xla = xla
        self.can_branch = not xla

    def apart(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Recomputes products that XLA rounds together with the sums they are in."""
        if not self._xla:
            return list(tensors)
        return recompute(tensors, _factors, _remake, _hidden)

    def sum_of_squares(self, tensor: Tensor) -> Tensor:
        """Sweeps once; squaring first would write the squares to memory."""
        if self._xla:
            return _in_tiles(tf.square(tensor))
        return 2 * tf.nn.l2_loss(tensor)

    def exponents(self, tensor: Tensor) -> Tensor:
        """Returns the exponents, from the bits."""
        bits = tf.bitcast(tensor, tf.int32)
        return (tf.bitwise.right_shift(bits, 23) & 255) - 127

    def take(self, tensor: Tensor, indices: Any) -> Tensor:
        """Gathers; Keras would first look for indices counted from the end."""
        return tf.gather(tensor, indices)

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


def _in_tiles(tensor: Tensor) -> Tensor:
    """Adds up a tensor in two stages.

    For a long reduction XLA first writes all elements to memory, and into that of
    another step: four times as slow. The barrier keeps it from merging the stages.
    """
    flat = tf.reshape(tensor, (-1,))
    size = flat.shape[0]
    whole = 0 if size is None else size - size % math.prod(_TILE)
    if not whole:
        return tf.reduce_sum(flat)
    tiles = tf.reshape(flat[:whole], (-1, *_TILE))
    parts = tf.concat(
        [
            tf.reshape(tf.reduce_sum(tiles, axis=1), (-1,)),
            tf.reduce_sum(flat[whole:])[None],
        ],
        0,
    )
    return tf.reduce_sum(gen_xla_ops.xla_optimization_barrier([parts])[0])


# the native sweep ---------------------------------------------------------------------


class TFSweep:
    """Measures tensors with XLA custom calls; see `Sweep`.

    In a step that XLA compiles they are part of it, and get a table of tensors whose
    length is 0 where nothing is recorded. In other steps they are in a small function
    that XLA compiles by itself: it runs without Python and without its lock.

    Args:
        xla: Whether XLA compiles the step.
    """

    def __init__(self, xla: bool) -> None:
        self.gated = xla
        self._compiled: dict[tuple[Any, ...], Any] = {}

    @classmethod
    def or_none(cls, xla: bool) -> TFSweep | None:
        """Returns a new one; None where it cannot be used, or tensors are not here."""
        elsewhere = tf.config.list_logical_devices("GPU")
        usable = library() is not None and not elsewhere and _registered()
        return cls(xla) if usable else None

    def measure(
        self, tensors: Sequence[Tensor], detail: Any, scale: Tensor | None = None
    ) -> Parts:
        """Returns rows and counts."""
        controls = [1.0 if scale is None else scale, detail >= 2]
        wide = [tf.cast(control, tf.float64) for control in controls]
        width = COLUMNS + BUCKETS
        rows = self._call(
            "gw_xla_measure", (len(tensors), width), tensors, detail, tf.stack(wide)
        )
        counts = tf.cast(rows[:, COLUMNS:], tf.float32)
        return {"rows": rows[:, :COLUMNS], "counts": counts}

    def sample(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns copies of blocks of the tensors, as bytes."""
        tensors = [_readable(tensor) for tensor in tensors]
        layout = TensorLayout(
            [(_size(tensor), tensor.dtype.name) for tensor in tensors]
        )
        return self._call("gw_xla_sample", (layout.sample_bytes,), tensors, detail)

    def moves(self, sample: Tensor, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns norms and their standard errors."""
        return self._call("gw_xla_moves", (len(tensors), 4), tensors, detail, sample)

    def norms(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns the norm of each tensor."""
        return self._call("gw_xla_norms", (len(tensors),), tensors, detail)

    def _call(
        self,
        target: str,
        shape: tuple[int, ...],
        tensors: Sequence[Tensor],
        detail: Any,
        *others: Tensor,
    ) -> Tensor:
        tensors = [_readable(tensor) for tensor in tensors]
        sizes = [_size(tensor) for tensor in tensors]
        table = tf.stack(
            [
                tf.cast(number, tf.int64)
                for number in (len(tensors), *sizes, *map(_type, tensors))
            ]
        )
        if self.gated:
            table *= tf.cast(detail > 0, tf.int64)
        arguments = [table, *others, *tensors]
        if self.gated:
            return _custom_call(target, shape, *arguments)
        key = (target, shape)
        if key not in self._compiled:
            self._compiled[key] = tf.function(
                functools.partial(_custom_call, target, shape),
                jit_compile=True,
                autograph=False,
            )
        return self._compiled[key](*arguments)


def _custom_call(target: str, shape: tuple[int, ...], *arguments: Tensor) -> Tensor:
    dtype = tf.uint8 if target == "gw_xla_sample" else tf.float64
    return gen_xla_ops.xla_custom_call(
        args=arguments, target_name=target, backend_config="", dtype=dtype, shape=shape
    )


def _size(tensor: Tensor) -> Any:
    size = tensor.shape.num_elements()
    return tf.size(tensor, tf.int64) if size is None else size


def _type(tensor: Tensor) -> int:
    return TYPES[tensor.dtype.name]


def _readable(tensor: Tensor) -> Tensor:
    tensor = tf.convert_to_tensor(tensor)
    return tensor if tensor.dtype.name in TYPES else tf.cast(tensor, tf.float32)


# A C++ function of TensorFlow's own library, which is exported but not documented:
# xla::CustomCallTargetRegistry::Register(name, function, platform), and the registry.
_REGISTRY = "_ZN3xla24CustomCallTargetRegistry6GlobalEv"
_REGISTER = (
    "_ZN3xla24CustomCallTargetRegistry8RegisterERKNSt7__cxx1112basic_stringIcSt11"
    "char_traitsIcESaIcEEEPvS8_"
)
_TARGETS = ("gw_xla_measure", "gw_xla_sample", "gw_xla_moves", "gw_xla_norms")


class _String(ctypes.Structure):
    """A `std::string` of libstdc++, as it lies in memory."""

    _fields_ = (
        ("pointer", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("buffer", ctypes.c_char * 16),
    )

    def __init__(self, text: str) -> None:
        self.text = ctypes.create_string_buffer(text.encode())
        super().__init__(ctypes.addressof(self.text), len(text))


@functools.cache
def _registered() -> bool:
    """Makes the native sweep known to XLA, once; False if this TensorFlow cannot."""
    try:
        [path, *_] = Path(tf.__file__).parent.glob("libtensorflow_cc.so*")
        framework = ctypes.CDLL(str(path))
        registry, register = (getattr(framework, n) for n in (_REGISTRY, _REGISTER))
    except (ValueError, OSError, AttributeError):
        return False
    registry.restype = ctypes.c_void_p
    register.argtypes = [ctypes.c_void_p] * 4
    register.restype = None
    platform = _String("Host")
    for target in _TARGETS:
        name, function = _String(target), ctypes.c_void_p(address(target))
        register(registry(), ctypes.byref(name), function, ctypes.byref(platform))
    return True


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


def _is_rounded_alone(tensor: Tensor) -> bool:
    """Returns whether a tensor is rounded by itself, whatever reads it."""
    return _factors(tensor) is None


def _factors(tensor: Tensor) -> Sequence[Tensor] | None:
    operation = tensor.op
    inputs: Sequence[Tensor] = operation.inputs
    if operation.type in _SAME:
        inputs = [inputs[tensor.value_index]]
    through = operation.type in _SAME or operation.type in _THROUGH
    if operation.type in _PRODUCTS or (through and not _is_rounded_alone(inputs[0])):
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
