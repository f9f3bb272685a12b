"""What watching a training needs of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.auto_control_deps_utils import (
    get_read_only_resource_input_indices_graph,
)

from .._common import best_of
from .._protocol import Tensor
from . import kernels  # noqa: F401 - `watching.kernels` is read by others
from .loop import LoopStream  # noqa: F401
from .probe import Probe  # noqa: F401
from .stream import Stream

STATELESS = False
"""Whether training goes through `stateless_apply`."""
KEEPS_TRACES = True
"""Whether a step trains what was trainable when it was traced, whatever is now."""
LISTENS = True
"""Whether an optimizer writes each variable by itself."""


def value(part: Any) -> Tensor:
    """Returns a value that `snapshot` kept."""
    return part() if callable(part) else part


def tracing() -> bool:
    """Whether what runs now may be traced again before it counts.

    A function that makes variables is: what was traced first only makes them.
    """
    return not tf.executing_eagerly()


def is_tensor(value: object) -> bool:
    """Whether this is a dense tensor of known shape."""
    return isinstance(value, tf.Tensor) and value.shape.is_fully_defined()


def seconds(function: Callable[..., Any], tensors: Sequence[Tensor]) -> float:
    """Returns how long a function of these tensors takes, compiled."""
    compiled = tf.function(function, autograph=False)
    given = [tf.convert_to_tensor(tensor) for tensor in tensors]
    return best_of(lambda: tf.nest.map_structure(_array, compiled(given)))


def written(train_function: Any, variables: Sequence[Any]) -> list[bool] | None:
    """Tells which variables a train function of Keras writes; None before it has run.

    What a `tf.function` was traced with stays in it: layers that were frozen since are
    still trained. TensorFlow itself notes which resources a function only reads.
    """
    cells = [cell.cell_contents for cell in train_function.__closure__ or ()]
    traced = [c for c in cells if hasattr(c, "experimental_get_tracing_count")]
    if len(traced) != 1 or not traced[0].experimental_get_tracing_count():
        return None
    handles: set[int] = set()
    for concrete in traced[0]._list_all_concrete_functions():
        graph = concrete.graph
        read_only = set(get_read_only_resource_input_indices_graph(graph))
        places = {id(tensor): place for place, tensor in enumerate(graph.inputs)}
        handles |= {
            id(outside)
            for outside, inside in graph.captures
            if places.get(id(inside)) not in read_only
        }
    return [id(variable.value.handle) in handles for variable in variables]


def rebuild(
    model: Any,
    stream: Stream,
    before: Callable[[int], Any],
    after: Callable[..., Any],
) -> Any:
    """Returns a new train function that says before and after each execution."""
    if model.jit_compile and not model.run_eagerly and stream.slots == 1:
        return _one_of_two(model, stream, before, after)
    inner = _made(model)

    def train_function(iterator: Any) -> Any:
        before(model.steps_per_execution)
        return after(inner(iterator))

    return train_function


def _one_of_two(
    model: Any,
    stream: Stream,
    before: Callable[[int], Any],
    after: Callable[..., Any],
) -> Any:
    """With XLA, steps that are recorded are compiled apart from those that are not.

    The latter are what nobody watches. A branch inside one step would keep XLA from
    updating weights in place.
    """
    made: dict[bool, Any] = {}

    def train_function(iterator: Any) -> Any:
        before(1)
        recorded = stream.is_armed
        if recorded not in made:
            made[recorded] = _made(model)
        stream.fixed = recorded
        try:
            return after(stream.keep(made[recorded](iterator)))
        finally:
            stream.fixed = None

    return train_function


def _made(model: Any) -> Any:
    """A train function of Keras; the model keeps the one it has."""
    kept = model.train_function
    try:
        model.make_train_function(force=True)
        return model.train_function
    finally:
        model.train_function = kept


def as_written(function: Callable[..., Any]) -> Any:
    """Keeps AutoGraph, which rewrites the loops of users, out of our code."""
    return tf.autograph.experimental.do_not_convert(function)


def _array(tensor: Tensor) -> Any:
    return tensor.numpy()
