"""What watching a training needs of TensorFlow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.auto_control_deps_utils import (
    get_read_only_resource_input_indices_graph,
)

from .._common import best_of, fresh_train_function
from .._protocol import Tensor
from . import kernels
from .loop import LoopStream
from .probe import Probe
from .stream import Stream

__all__ = [
    "KEEPS_TRACES",
    "LISTENS",
    "STATELESS",
    "LoopStream",
    "Probe",
    "Stream",
    "as_written",
    "is_tensor",
    "kernels",
    "one_step",
    "rebuild",
    "seconds",
    "tracing",
    "value",
    "written",
]

Keep = Callable[[Any], None]

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
    keep: Keep | None = None,
) -> Any:
    """Returns a new train function that says before and after each execution.

    Args:
        model: The model.
        stream: Carries what the steps send.
        before: Is told how many steps are about to be made.
        after: Gets the logs, and returns them.
        keep: Gets the batch of each step.
    """
    if model.jit_compile and not model.run_eagerly and stream.slots == 1:
        return _one_of_two(model, stream, before, after, keep)
    inner = fresh_train_function(model)

    def train_function(iterator: Any) -> Any:
        before(model.steps_per_execution)
        return after(inner(_seen(iterator, model.steps_per_execution, keep)))

    return train_function


def _seen(iterator: Any, steps: int, keep: Keep | None) -> Any:
    """Has the next batches pass through the host.

    Keras itself fetches them inside the compiled function, where nobody sees them; it
    takes those of an iterator of Python as well.
    """
    if keep is None:
        return iterator
    batches = list(itertools.islice(iterator, steps))
    if not batches:
        raise StopIteration
    for batch in batches:
        keep(batch)
    return iter(batches)


def one_step(model: Any, train_function: Any, batch: Any) -> Any:
    """Makes one training step on a batch, and returns its logs."""
    del model
    return train_function(iter([batch]))


def _one_of_two(
    model: Any,
    stream: Stream,
    before: Callable[[int], Any],
    after: Callable[..., Any],
    keep: Keep | None,
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
            made[recorded] = fresh_train_function(model)
        stream.fixed = recorded
        try:
            logs = made[recorded](_seen(iterator, 1, keep))
            return after(stream.keep(logs))
        finally:
            stream.fixed = None

    return train_function


def as_written(function: Callable[..., Any]) -> Any:
    """Keeps AutoGraph, which rewrites the loops of users, out of our code."""
    return tf.autograph.experimental.do_not_convert(function)


def _array(tensor: Tensor) -> Any:
    return tensor.numpy()
