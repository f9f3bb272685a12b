"""Draws the graph of a forward pass, to see where gradients are cut."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from .._flow import Cut, Flow, Step, operation
from .._protocol import Outcome
from .recorder import Recorder

# Their registered gradient is a tensor of zeros, not None.
_ZERO_GRADIENT = {"Sign", "Round", "Rint", "Floor", "Ceil", "FloorDiv", "TruncateDiv"}
_STOPS = {"StopGradient", "PreventGradient"}


def flow_of(recorder: Recorder, outcome: Outcome) -> Flow:
    """Draws the graph backwards from the target and the outputs."""
    steps: list[Step] = []
    seen: set[int] = set()
    start = [outcome.value, *outcome.outputs.values()]
    queue = [t.op for t in start if hasattr(t, "op")]
    while queue:
        op = queue.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        inputs = list(op.inputs)
        for output in op.outputs:
            cut = _cut(op, output, recorder)
            steps.append(Step([t.ref() for t in inputs], output.ref(), cut))
        queue += [t.op for t in inputs]
    ids = {leaf: tensor.ref() for leaf, tensor in recorder.leaves.items()}
    outputs = {name: tensor.ref() for name, tensor in outcome.outputs.items()}
    return Flow(steps, ids, outcome.value.ref(), outputs)


def _cut(op: Any, output: Any, recorder: Recorder) -> Cut | None:
    place = recorder.place_of(op._id - 1) if hasattr(op, "_id") else ""
    if op.type in _STOPS:
        return Cut("stop_gradient", "stop_gradient", place)
    if output.dtype.is_integer or output.dtype.is_bool or output.dtype == tf.string:
        return Cut("integer", operation(op.type), place)
    if op.type in _ZERO_GRADIENT or _registered_as_none(op):
        return Cut("not_differentiable", operation(op.type), place)
    return None


def _registered_as_none(op: Any) -> bool:
    try:
        return tf_ops.get_gradient_function(op) is None
    except LookupError:  # calls and loops have no entry: their bodies have
        return False
