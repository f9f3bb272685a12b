"""Operations of our own in graphs of TensorFlow, written in C (native/tensorflow.c).

They run like those of TensorFlow itself: without Python, without its lock, and on any
thread of the executor. In a step that is not recorded each takes about a microsecond.
XLA cannot compile them; see `TFSweep` in kernels.py for its steps.
"""

from __future__ import annotations

import ctypes
import functools
import math
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_library, op_def_registry
from tensorflow.python.framework.auto_control_deps_utils import (
    register_read_only_resource_op,
)
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from ..._errors import GradwatchError
from ...native import TYPES, TensorLayout, library
from .._protocol import Parts, Tensor

COLUMNS, BUCKETS, MOVES = 11, 128, 4
"""Numbers of a row, of a histogram, and of how far a weight moved."""
LARGE = 65_536
"""Maximum number of elements of a tensor that is measured together with others."""

# The functions of TensorFlow's C interface, in the order of `struct tensorflow`.
_FUNCTIONS = (
    *("TF_NewStatus", "TF_DeleteStatus", "TF_GetCode", "TF_NewOpDefinitionBuilder"),
    *("TF_OpDefinitionBuilderAddAttr", "TF_OpDefinitionBuilderAddInput"),
    *("TF_OpDefinitionBuilderAddOutput", "TF_OpDefinitionBuilderSetIsStateful"),
    "TF_OpDefinitionBuilderSetShapeInferenceFunction",
    *("TF_ShapeInferenceContextSetUnknownShape", "TF_RegisterOpDefinition"),
    *("TF_NewKernelBuilder", "TF_RegisterKernelBuilder"),
    *("TF_OpKernelConstruction_GetAttrInt64", "TF_NumInputs", "TF_NumOutputs"),
    *("TF_SetOutput", "TF_GetInput"),
    *("TF_AllocateOutput", "TF_TensorType", "TF_TensorData", "TF_TensorByteSize"),
    *("TF_TensorElementCount", "TF_DeleteTensor"),
)


@functools.cache
def registered() -> bool:
    """Makes the operations known, once; False if this TensorFlow cannot.

    Nor if another copy of gradwatch in this process has: a name belongs to one.
    """
    native = library()
    if native is None:
        return False
    register = native.functions.gw_tensorflow_register
    if register(None, 0) == 0:
        return True
    if op_def_registry.get("GradwatchDetail") is not None:
        return False
    try:
        [path, *_] = Path(tf.__file__).parent.glob("libtensorflow_framework*")
        framework = ctypes.CDLL(str(path))
        functions = [getattr(framework, name) for name in _FUNCTIONS]
    except (ValueError, OSError, AttributeError):
        return False
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    table = (ctypes.c_void_p * len(addresses))(*addresses)
    return not register(table, len(addresses))


def run(name: str, *inputs: Any, **attributes: Any) -> list[Tensor]:
    """Runs an operation at once, or puts it into the graph that is being traced.

    Args:
        name: One of `_SIGNATURES`.
        inputs: Tensors, and lists of them.
        attributes: Numbers that are part of the graph, and types of outputs.
    """
    names, outputs = _SIGNATURES[name]
    if not tf.executing_eagerly():
        given = dict(zip(names, inputs, strict=True))
        made = op_def_library.apply_op(name, **given, **attributes)
        if not isinstance(made, list | tuple):
            return [made]
        return [*made[:2], *(made[2] if len(made) > 2 else ())]
    flat: list[Tensor] = []
    for value in inputs:
        flat += value if isinstance(value, list) else [value]
    several = [value for value in inputs if isinstance(value, list)]
    if several:
        attributes["T"] = [tensor.dtype for tensor in several[0]]
    if "variables" in names:
        attributes["N"] = len(several[1])
    attrs: list[Any] = []
    for key, value in attributes.items():
        types = isinstance(value, list)
        attrs += [key, [one.as_datatype_enum for one in value] if types else value]
    outputs += len(attributes.get("U", ()))
    return list(
        execute.execute(name.encode(), outputs, flat, tuple(attrs), context.context())
    )


_SIGNATURES = {
    "GradwatchDetail": (("slot",), 1),
    "GradwatchMeasure": (("detail", "scale", "tensors"), 2),
    "GradwatchNorms": (("detail", "tensors"), 1),
    "GradwatchSample": (("detail", "tensors", "variables"), 1),
    "GradwatchMoves": (("detail", "sample", "tensors"), 1),
    "GradwatchSend": (("detail", "slot", "parts"), 0),
}
"""Names of the inputs, and number of outputs."""
# Of variables that are inputs of it, the operation only reads the values.
register_read_only_resource_op("GradwatchSample")


class Operations:
    """Measures tensors with operations of our own; see `Sweep`."""

    gated = True

    @classmethod
    def or_none(cls) -> Operations | None:
        """Returns new ones; None where they cannot be used, as on a GPU."""
        elsewhere = tf.config.list_logical_devices("GPU")
        usable = library() is not None and not elsewhere and registered()
        return cls() if usable else None

    def measure(
        self, tensors: Sequence[Tensor], detail: Any, scale: Tensor | None = None
    ) -> tuple[Parts, Sequence[Tensor]]:
        """Returns rows and counts, and equal tensors.

        A large gradient is measured by an operation of its own as soon as it is there,
        and goes through it. Beside it, the optimizer could not compute in the memory of
        the gradient, and would need fresh memory at each step.
        """
        detail, read = _detail(detail), [*map(_readable, tensors)]
        factor = tf.constant(1.0) if scale is None else tf.cast(scale, tf.float32)
        sizes = [tensor.shape.num_elements() or 0 for tensor in read]
        small = [index for index, size in enumerate(sizes) if size <= LARGE]
        groups = [[index] for index, size in enumerate(sizes) if size > LARGE]
        groups += [small] if small or not groups else []
        made, passed = [], [*tensors]
        for group in groups:
            some = [read[index] for index in group]
            through = [] if group is small else [some[0].dtype]
            results = run("GradwatchMeasure", detail, factor, some, U=through)
            made.append(results[:2])
            for index, tensor in zip(group, results[2:], strict=False):
                if read[index] is tensors[index]:
                    passed[index] = shaped(tensor, *read[index].shape.as_list())
        rows, counts = (
            shaped(_in_order(part, groups), len(tensors), width)
            for part, width in zip(
                zip(*made, strict=True), (COLUMNS, BUCKETS), strict=True
            )
        )
        return {"rows": rows, "counts": counts}, passed

    def sample(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns copies of blocks of the tensors, as bytes."""
        values, variables = _values(tensors), _variables(tensors)
        sizes = [value.shape.num_elements() for value in values]
        names = [value.dtype.name for value in values]
        layout = TensorLayout(list(zip(sizes, names, strict=True)))
        size = layout.sample_bytes
        handles = [variable.handle for variable in variables]
        made = run("GradwatchSample", _detail(detail), values, handles, number=size)
        return shaped(made[0], size)

    def moves(self, sample: Tensor, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns norms and their standard errors."""
        made = run("GradwatchMoves", _detail(detail), sample, _values(tensors))
        return shaped(made[0], len(tensors), MOVES)

    def norms(self, tensors: Sequence[Tensor], detail: Any) -> Tensor:
        """Returns the norm of each tensor."""
        made = run("GradwatchNorms", _detail(detail), [*map(_readable, tensors)])
        return shaped(made[0], len(tensors))


def shaped(tensor: Tensor, *shape: int) -> Tensor:
    """Returns a tensor whose shape is known while it is traced."""
    if not tf.executing_eagerly():
        tensor.set_shape(shape)
    return tensor


def _detail(detail: Any) -> Tensor:
    return detail if tf.is_tensor(detail) else tf.constant(int(detail))


def _readable(tensor: Tensor) -> Tensor:
    tensor = tf.convert_to_tensor(tensor)
    return tensor if tensor.dtype.name in TYPES else tf.cast(tensor, tf.float32)


def _variables(tensors: Sequence[Any]) -> Sequence[Any]:
    """Returns the tensors if all of them are variables of the graph being traced."""
    together = all(type(tensor) is ResourceVariable for tensor in tensors)
    return tensors if together and not tf.executing_eagerly() else ()


def _values(tensors: Sequence[Any]) -> list[Tensor]:
    """Returns tensors; variables are read by one operation."""
    if not _variables(tensors):
        return [*map(_readable, tensors)]
    read = op_def_library.apply_op(
        "_ReadVariablesOp",
        name="GradwatchRead",
        resources=[variable.handle for variable in tensors],
        dtypes=[variable.dtype for variable in tensors],
    )
    shapes = [variable.shape.as_list() for variable in tensors]
    return [
        _readable(shaped(value, *shape))
        for value, shape in zip(read, shapes, strict=True)
    ]


def _in_order(parts: Sequence[Tensor], groups: Sequence[Sequence[int]]) -> Tensor:
    """Joins the results of several groups of tensors."""
    if len(parts) == 1:
        return parts[0]
    joined, order = tf.concat(parts, 0), [index for group in groups for index in group]
    ascending = order == sorted(order)
    return joined if ascending else tf.gather(joined, np.argsort(order))


class Box:
    """Memory that a graph writes to, and the host reads: a row for each slot.

    Args:
        slots: Number of rows.
        width: Bytes of a row.

    Attributes:
        rows: The memory, `[slots, width]`.
        number: Names the box in a graph.
    """

    def __init__(self, slots: int, width: int) -> None:
        functions: Any = getattr(library(), "functions", None)
        self.rows: NDArray[np.uint8] = np.zeros((slots, width), np.uint8)
        self.number: int = functions.gw_box_open(self.rows.ctypes.data, width, slots)
        if self.number < 0:
            raise GradwatchError(
                "A process may watch some hundred trainings at once. Received: one "
                "more. Let those end that are over, or set GRADWATCH_NATIVE=0."
            )
        # A graph may outlive the box: its operations then do nothing.
        weakref.finalize(self, _close, functions, self.number, self.rows)


def _close(functions: Any, number: int, rows: NDArray[np.uint8]) -> None:
    functions.gw_box_close(number)
    del rows  # kept until here


class Sheet:
    """A box for the parts that one key sends, and where they are in a row.

    Args:
        slots: Number of rows.
        parts: Tensors of known shapes, by name. `counts` is copied only if asked for.

    Attributes:
        layout: The element type and the shape of each part, in the order of a row.
    """

    COUNTS = "counts"

    def __init__(self, slots: int, parts: Parts) -> None:
        self.layout = layout_of(parts)
        self._parts: list[tuple[str, int, np.dtype[Any], tuple[int, ...]]] = []
        end = 8  # after the number of times that the row was written
        without_counts = 0
        for name, (element, shape) in self.layout.items():
            dtype = np.dtype(element)
            self._parts.append((name, end, dtype, shape))
            end += -(-math.prod(shape) * dtype.itemsize // 8) * 8
            without_counts = end if name != self.COUNTS else without_counts
        self.box = Box(slots, end)
        self._written = self.box.rows[:, :8].view(np.int64)[:, 0]
        self._seen = [0] * slots
        rows = [memoryview(row) for row in self.box.rows]
        self._rows = [row[:without_counts] for row in rows], rows

    def new(self, slot: int, *, histograms: bool) -> dict[str, NDArray[Any]] | None:
        """Returns what was written to a slot since the last call; None if nothing."""
        written = int(self._written[slot])
        if written == self._seen[slot]:
            return None
        self._seen[slot] = written
        row = bytes(self._rows[histograms][slot])
        return {
            name: np.ndarray(shape, dtype, row, start)
            for name, start, dtype, shape in self._parts
            if start < len(row)
        }


def layout_of(parts: Parts) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Returns the element type and the shape of each part, the counts last."""
    names = sorted(parts, key=lambda name: name == Sheet.COUNTS)
    return {
        name: (parts[name].dtype.as_numpy_dtype, tuple(parts[name].shape))
        for name in names
    }
