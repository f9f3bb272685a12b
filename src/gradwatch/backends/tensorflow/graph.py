"""The operations of a pass: paths through the graph, and each one as it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks
from tensorflow.python.framework import ops as tf_ops

from .._flow import Cut, Flow, Operation
from .._names import canonical, operation
from .._protocol import Outcome, See

if TYPE_CHECKING:
    from .passes import TFRecorder

# Their registered gradient is a tensor of zeros, not None.
_ZERO_GRADIENT = {"Sign", "Round", "Rint", "Floor", "Ceil", "FloorDiv", "TruncateDiv"}
_LOOPS = ("While", "StatelessWhile")
_BRANCHES = ("If", "StatelessIf")
_BODIES = {
    **dict.fromkeys(_LOOPS, ("body",)),
    **dict.fromkeys(_BRANCHES, ("then_branch", "else_branch")),
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), ("f",)),
}
_STOPS = {"StopGradient", "PreventGradient"}


def flow_of(recorder: TFRecorder, outcome: Outcome) -> Flow:
    """Draws everything that the target and the outputs are made from."""
    steps: list[tuple[int, Operation]] = []
    ends = [outcome.value, *outcome.outputs.values()]
    _draw(ends, recorder, "", steps)
    steps.sort(key=lambda numbered: numbered[0])
    return Flow(
        [step for _, step in steps],
        {leaf: tensor.ref() for leaf, tensor in recorder.leaves.items()},
        outcome.value.ref(),
        {name: tensor.ref() for name, tensor in outcome.outputs.items()},
    )


def _draw(
    ends: Sequence[Any],
    recorder: TFRecorder,
    outer: str,
    steps: list[tuple[int, Operation]],
    number: int | None = None,
) -> None:
    """Adds the operations that some tensors of one graph are made from.

    Operations inside a body count as executed when the operation that runs it is.
    """
    seen: set[int] = set()
    queue = [tensor.op for tensor in ends if hasattr(tensor, "op")]
    while queue:
        op = queue.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        when = op._id if number is None else number
        address = recorder.address_of(op) or outer
        inputs = list(op.inputs)
        queue += [tensor.op for tensor in inputs]
        bodies = list(_bodies(op))
        for body, given in bodies:
            joins = [*zip(given, body.inputs, strict=False)]
            joins += zip(body.outputs, op.outputs, strict=False)
            if op.type in _LOOPS:  # each result is read by the next round
                joins += zip(body.outputs, body.inputs, strict=False)
            steps += [(when, Operation([a.ref()], b.ref())) for a, b in joins]
            _draw(body.outputs, recorder, address, steps, when)
        for output in op.outputs if not bodies else ():
            cut = _cut(op, output, address)
            read = [tensor.ref() for tensor in inputs]
            if op.type == "IdentityN":  # each output is one input
                read = [inputs[output.value_index].ref()]
            steps.append((when, Operation(read, output.ref(), cut)))


def _bodies(op: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yields the graphs that an operation runs, with what it gives them."""
    given = list(op.inputs)[1 if op.type in _BRANCHES else 0 :]
    for attribute in _BODIES.get(op.type, ()):
        function = op.graph._get_function(op.get_attr(attribute).name)
        graph = getattr(function, "graph", None)
        if graph is not None:
            yield graph, given


def _cut(op: Any, output: Any, address: str) -> Cut | None:
    if op.type in _STOPS:
        return Cut("stop_gradient", "stop_gradient", address)
    if output.dtype.is_integer or output.dtype.is_bool or output.dtype == tf.string:
        return Cut("integer", operation(op.type), address)
    if op.type in _ZERO_GRADIENT or _registered_as_none(op):
        return Cut("not_differentiable", operation(op.type), address)
    return None


def _registered_as_none(op: Any) -> bool:
    try:
        return tf_ops.get_gradient_function(op) is None
    except LookupError:  # calls and loops have no entry: their bodies have
        return False


def traced(function: Callable[[], Any], see: See) -> None:
    """Runs a function, and tells of each operation; seen by this thread only."""

    def callback(kind: Any, inputs: Any, _: Any, outputs: Any, *__: Any) -> None:
        if isinstance(kind, bytes):
            kind = kind.decode()
        see(canonical(kind), _floats(inputs), _floats(outputs))

    op_callbacks.add_op_callback(callback)
    try:
        function()
    finally:
        op_callbacks.remove_op_callback(callback)


def _floats(tensors: Any) -> list[np.ndarray]:
    # Symbolic tensors belong to a function that is traced here and runs elsewhere.
    return [
        tensor.numpy()
        for tensor in tensors or ()
        if isinstance(tensor, tf.Tensor)
        and not tf.is_symbolic_tensor(tensor)
        and tensor.dtype.is_floating
    ]
