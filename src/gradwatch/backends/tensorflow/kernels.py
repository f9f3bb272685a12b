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
        if isinstance(gradient, tf.Tensor) and gradient.shape == shape:
            return gradient
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
    """Measures tensors in a step that XLA compiles, by custom calls; see `Sweep`."""

    gated = True

    @classmethod
    def or_none(cls) -> TFSweep | None:
        """Returns a new one; None where it cannot be used, or tensors are not here."""
        elsewhere = tf.config.list_logical_devices("GPU")
        usable = library() is not None and not elsewhere and _registered()
        return cls() if usable else None

    def measure(
        self, tensors: Sequence[Tensor], detail: Any, scale: Tensor | None = None
    ) -> tuple[Parts, Sequence[Tensor]]:
        """Returns rows and counts, and the tensors."""
        count = len(tensors)
        results = [_doubles(count, COLUMNS), ((count, BUCKETS), tf.uint32)]
        rows, counts = _call("GwMeasure", results, tensors, detail, scale)
        return {"rows": _wide(rows), "counts": tf.cast(counts, tf.float32)}, tensors

    def sample(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns copies of blocks of the tensors, as bytes."""
        tensors = [_readable(tensor) for tensor in tensors]
        sizes = [tensor.shape.num_elements() for tensor in tensors]
        names = [tensor.dtype.name for tensor in tensors]
        layout = TensorLayout(list(zip(sizes, names, strict=True)))
        results = [((layout.sealed_bytes,), tf.uint8)]
        return _call("GwSample", results, tensors, detail)[0]

    def moves(self, sample: Tensor, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns norms and their standard errors."""
        results = [_doubles(len(tensors), 4)]
        return _wide(_call("GwMoves", results, [sample, *tensors], detail)[0])

    def norms(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns the norm of each tensor."""
        results = [_doubles(len(tensors), 1)]
        return _wide(_call("GwNorms", results, tensors, detail)[0])[:, 0]


def _call(
    handler: str,
    results: Results,
    tensors: Sequence[Tensor],
    detail: Any,
    scale: Tensor | None = None,
) -> Sequence[Tensor]:
    numbers = (1.0 if scale is None else scale, detail)
    controls = tf.stack([tf.cast(number, tf.float32) for number in numbers])
    return _custom_call(handler, results, controls, *map(_readable, tensors))


Results = Sequence[tuple[tuple[int, ...], Any]]
"""The shape and the type of each result of a handler."""


def _doubles(*shape: int) -> tuple[tuple[int, ...], Any]:
    """Returns the description of float64 as pairs of uint32, which are their bits."""
    return (*shape[:-1], 2 * shape[-1]), tf.uint32


def _wide(bits: Tensor) -> Tensor:
    """Returns float64 for pairs of uint32."""
    return tf.bitcast(tf.reshape(bits, (bits.shape[0], -1, 2)), tf.float64)


def _custom_call(
    handler: str, results: Results, *arguments: Tensor
) -> Sequence[Tensor]:
    """Calls a handler in a step that XLA compiles.

    A module of StableHLO that holds nothing else: TensorFlow's own operation for custom
    calls knows only interfaces of XLA that are about to be removed.
    """
    operands = [
        f"%{index}: {_hlo(argument.shape, argument.dtype)}"
        for index, argument in enumerate(arguments)
    ]
    types = [_hlo(tf.TensorShape(shape), dtype) for shape, dtype in results]
    names = ", ".join(operand.split(":")[0] for operand in operands)
    inputs = ", ".join(operand.split(": ")[1] for operand in operands)
    outputs, count = ", ".join(types), len(types)
    made = ", ".join(f"%made#{index}" for index in range(count))
    module = f"""
module @gradwatch {{
  func.func public @main({", ".join(operands)}) -> ({outputs}) {{
    %made:{count} = stablehlo.custom_call @{handler}({names})
      {{api_version = 4 : i32, backend_config = {{}}}} : ({inputs}) -> ({outputs})
    return {made} : {outputs}
  }}
}}"""
    called: Sequence[Tensor] = gen_xla_ops.xla_call_module(
        args=arguments,
        version=_MODULE_VERSION,
        module=module.encode(),
        Sout=[shape for shape, _ in results],
        Tout=[dtype for _, dtype in results],
        platforms=["CPU"],
    )
    return called


_MODULE_VERSION = 9
"""A version of the calling convention that TensorFlow reads; checked on 2.21."""
_HLO = {
    tf.float16: "f16",
    tf.bfloat16: "bf16",
    tf.float32: "f32",
    tf.float64: "f64",
    tf.uint8: "ui8",
    tf.uint32: "ui32",
}


def _hlo(shape: tf.TensorShape, dtype: Any) -> str:
    """Returns a type as StableHLO writes it; unknown lengths are made known by XLA."""
    lengths = ["?" if length is None else str(length) for length in shape]
    return f"tensor<{'x'.join([*lengths, _HLO[dtype]])}>"


def _readable(tensor: Tensor) -> Tensor:
    tensor = tf.convert_to_tensor(tensor)
    known = tensor.dtype.name in (*TYPES, "uint8")
    return tensor if known else tf.cast(tensor, tf.float32)


# A C++ function of TensorFlow's own library, which is exported but not documented. It
# returns XLA's table of C functions (`XLA_FFI_Api`), which is public and versioned.
_GET_API = "_ZN3xla3ffi12GetXlaFfiApiEv"
_HANDLERS = ("GwMeasure", "GwSample", "GwMoves", "GwNorms")


class _Text(ctypes.Structure):
    """`XLA_FFI_ByteSpan`."""

    _fields_ = (("pointer", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Registration(ctypes.Structure):
    """`XLA_FFI_Handler_Register_Args`."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("name", _Text),
        ("platform", _Text),
        ("instantiate", ctypes.c_void_p),
        ("prepare", ctypes.c_void_p),
        ("initialize", ctypes.c_void_p),
        ("execute", ctypes.c_void_p),
        ("traits", ctypes.c_uint32),
    )


class _Api(ctypes.Structure):
    """The beginning of `XLA_FFI_Api`."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("version_size", ctypes.c_size_t),
        ("version_extensions", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("internal", ctypes.c_void_p),
        ("create_error", ctypes.c_void_p),
        ("error_message", ctypes.c_void_p),
        ("destroy_error", ctypes.c_void_p),
        ("register", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
    )


@functools.cache
def _registered() -> bool:
    """Makes the handlers known to XLA, once; False if this TensorFlow cannot."""
    try:
        [path, *_] = Path(tf.__file__).parent.glob("libtensorflow_cc.so*")
        get_api = getattr(ctypes.CDLL(str(path)), _GET_API)
    except (ValueError, OSError, AttributeError):
        return False
    get_api.restype = ctypes.POINTER(_Api)
    api = get_api().contents
    if api.major != 0:
        return False
    failures = []
    for name in _HANDLERS:
        call = _Registration(
            struct_size=_Registration.traits.offset + _Registration.traits.size,
            name=_Text(name.encode(), len(name)),
            platform=_Text(b"Host", 4),
            execute=address(name),
        )
        failures.append(api.register(ctypes.addressof(call)))
    return not any(failures)


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
