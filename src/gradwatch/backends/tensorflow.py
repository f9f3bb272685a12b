"""TensorFlow: a tape inside one `tf.function`."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from ._common import shapes, suspicious, unscaled
from ._flow import Cut, Flow, Step, Verdict, analyse
from ._protocol import Leaf, Outcome, Passed, Program, Runner, Sparse, Tensor

HAS_TAPE = True
PROBES_RNN_CELLS = True

# Their registered gradient is a tensor of zeros, not None.
_ZERO_GRADIENT = {"Sign", "Round", "Rint", "Floor", "Ceil", "FloorDiv", "TruncateDiv"}
_STOPS = {"StopGradient", "PreventGradient"}


class Recorder:
    """Marks tensors by a fresh identity that the tape watches."""

    def __init__(self, tape: tf.GradientTape, graph: Any = None) -> None:
        self.tape = tape
        self.graph = graph
        self.leaves: dict[Leaf, Tensor] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self._places: list[tuple[int, str]] = [(0, "")]

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """Watching the tensor itself would be wrong where a layer returns its input."""
        marked = tf.identity(tensor)
        self.tape.watch(marked)
        self.leaves[leaf] = marked
        if keep:
            self.kept[leaf] = marked
        return marked

    def can_leave(self, tensor: Tensor) -> bool:
        """The body of a loop, a branch or a map is traced into a graph of its own."""
        del tensor
        return tf.executing_eagerly() or tf_ops.get_default_graph() is self.graph

    def is_dense(self, tensor: object) -> bool:
        """Ragged and sparse tensors are composites."""
        return isinstance(tensor, tf.Tensor)

    @contextlib.contextmanager
    def place(self, address: str) -> Iterator[None]:
        """In a graph, operations are numbered: remember from which number on."""
        if self.graph is None or tf.executing_eagerly():
            yield
            return
        outer = self._places[-1][1]
        self._places.append((self.graph.version, address))
        try:
            yield
        finally:
            self._places.append((self.graph.version, outer))

    def place_of(self, number: int) -> str:
        """Returns the address of the layer that made operation `number`."""
        # An operation is numbered by the version of the graph after it was added.
        position = bisect.bisect_left(self._places, (number, "")) - 1
        return self._places[max(position, 0)][1]


def run(program: Program, variables: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
    """Runs a program forward and backward; returns all there is to know."""
    graph = None if tf.executing_eagerly() else tf_ops.get_default_graph()
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        recorder = Recorder(tape, graph)
        values = [tf.convert_to_tensor(v.value) for v in variables]
        outcome = program(recorder, values, tensors)
        target = outcome.value
        if outcome.scale is not None:
            target = target * tf.cast(outcome.scale, target.dtype)
    raw = tape.gradient(target, list(recorder.leaves.values()))
    gradients = {
        leaf: unscaled(_plain(gradient), outcome.scale)
        for leaf, gradient in zip(recorder.leaves, raw, strict=True)
    }
    return recorder, outcome, gradients


def _plain(gradient: Any) -> Tensor | Sparse | None:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    shape = tuple(int(d) for d in gradient.dense_shape) if _eager(gradient) else ()
    return Sparse(gradient.indices, gradient.values, shape)


def _eager(gradient: tf.IndexedSlices) -> bool:
    return gradient.dense_shape is not None and hasattr(gradient.dense_shape, "numpy")


class Eager:
    """Runs the program operation by operation."""

    compiled = False
    facts: Any = None

    def __init__(self, program: Program, variables: Sequence[Any]) -> None:
        self.program = program
        self.variables = variables
        self.outputs: dict[str, tuple[int, ...]] = {}

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once."""
        recorder, outcome, gradients = run(self.program, self.variables, tensors)
        verdicts: dict[Leaf, Verdict] = {}
        if suspicious(gradients):
            # Some models run only eagerly; then there is no graph to explain by.
            with contextlib.suppress(Exception):
                verdicts = Compiled(self.program, self.variables, tensors).verdicts
            gradients = drop_cut(gradients, verdicts)
        self.facts, self.outputs = outcome.facts, shapes(outcome.outputs)
        return Passed(
            outcome.value,
            outcome.outputs,
            _with_shapes(gradients, recorder.leaves),
            recorder.kept,
            outcome.facts,
            verdicts,
        )


class Compiled:
    """Traces the program once; holds the graph, not the program or the model."""

    compiled = True

    def __init__(
        self, program: Program, variables: Sequence[Any], tensors: Sequence[Tensor]
    ) -> None:
        self.facts: Any = None
        self.outputs: dict[str, tuple[int, ...]] = {}
        self.verdicts: dict[Leaf, Verdict] = {}
        self._shapes: dict[Leaf, tuple[int, ...]] = {}

        def traced(*arguments: Tensor) -> Any:
            recorder, outcome, gradients = run(program, variables, arguments)
            self.facts, self.outputs = outcome.facts, shapes(outcome.outputs)
            self.verdicts = analyse(_flow(recorder, outcome))
            self._shapes = {
                leaf: tuple(tensor.shape) for leaf, tensor in recorder.leaves.items()
            }
            found = drop_cut(gradients, self.verdicts)
            return (
                outcome.value,
                outcome.outputs,
                list(found.items()),
                list(recorder.kept.items()),
            )

        # Dataclasses and tuples of leaves are not tensors: keep the structure here,
        # and let the graph return a flat list.
        structure: list[Any] = []

        def flat(*arguments: Tensor) -> list[Tensor]:
            value, outputs, found, kept = traced(*arguments)
            tensors_out: list[Tensor] = []

            def stow(item: Any) -> Any:
                if item is None:
                    return None
                if isinstance(item, Sparse):
                    return ("sparse", stow(item.indices), stow(item.values))
                tensors_out.append(item)
                return len(tensors_out) - 1

            structure[:] = [
                stow(value),
                {name: stow(t) for name, t in outputs.items()},
                [(leaf, stow(g)) for leaf, g in found],
                [(leaf, stow(t)) for leaf, t in kept],
            ]
            return tensors_out

        signature = [tf.type_spec_from_value(tensor) for tensor in tensors]
        function = tf.function(flat, autograph=False)
        self._function = function.get_concrete_function(*signature)
        self._structure = structure
        # Concrete functions hold captured variables only weakly.
        self._variables = [v.value for v in variables]

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs the graph."""
        flat = self._function(*tensors)
        value, outputs, found, kept = self._structure

        def fetch(place: Any) -> Any:
            return None if place is None else flat[place]

        gradients: dict[Leaf, Any] = {}
        for leaf, place in found:
            if isinstance(place, tuple):
                gradients[leaf] = Sparse(
                    flat[place[1]], flat[place[2]], self._shapes[leaf]
                )
            else:
                gradients[leaf] = fetch(place)
        return Passed(
            flat[value],
            {name: flat[place] for name, place in outputs.items()},
            gradients,
            {leaf: flat[place] for leaf, place in kept},
            self.facts,
            self.verdicts,
        )


def drop_cut(gradients: Any, verdicts: Any) -> dict[Leaf, Any]:
    """Turns the zeros of a cut path into None: nothing was measured there."""
    return {
        leaf: gradient if leaf not in verdicts or verdicts[leaf].connected else None
        for leaf, gradient in gradients.items()
    }


def _with_shapes(gradients: Any, leaves: Any) -> dict[Leaf, Any]:
    return {
        leaf: Sparse(g.indices, g.values, tuple(leaves[leaf].shape))
        if isinstance(g, Sparse)
        else g
        for leaf, g in gradients.items()
    }


def _flow(recorder: Recorder, outcome: Outcome) -> Flow:
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
        return Cut("integer", op.type, place)
    if op.type in _ZERO_GRADIENT or _registered_as_none(op):
        return Cut("not_differentiable", op.type, place)
    return None


def _registered_as_none(op: Any) -> bool:
    try:
        return tf_ops.get_gradient_function(op) is None
    except LookupError:  # calls and loops have no entry: their bodies have
        return False


def prepare(
    program: Program,
    variables: Sequence[Any],
    tensors: Sequence[Tensor],
    *,
    compiled: bool,
) -> Runner:
    """Makes a program ready to run on batches like these tensors."""
    if compiled:
        return Compiled(program, variables, tensors)
    return Eager(program, variables)


def raw_state(layers: Sequence[Any]) -> list[Any]:
    """Returns the raw `tf.Variable`s of layers, which Keras does not protect."""
    return [
        value
        for layer in layers
        for value in vars(layer).values()
        if isinstance(value, tf.Variable)
    ]


@contextlib.contextmanager
def restored(raw: Sequence[Any]) -> Iterator[None]:
    """Gives raw variables their values back."""
    before = [variable.read_value() for variable in raw]
    try:
        yield
    finally:
        for variable, value in zip(raw, before, strict=True):
            variable.assign(value)


def protected(layers: Sequence[Any]) -> contextlib.AbstractContextManager[None]:
    """Protects what a pass could change outside of Keras's own variables."""
    return restored(raw_state(layers))


def synchronise(model: Any) -> None:
    """Nothing to do: variables always hold their values."""


def dense(gradient: Sparse) -> Tensor:
    """Returns all rows of a sparse gradient."""
    slices = tf.IndexedSlices(
        gradient.values, gradient.indices, tf.constant(gradient.shape, "int64")
    )
    return tf.convert_to_tensor(slices)


def is_eager(tensor: Tensor) -> bool:
    """Whether the tensor has a value now."""
    return not tf.is_symbolic_tensor(tensor)


class Tape:
    """What `gradwatch.Tape` stands on: a persistent `tf.GradientTape`."""

    def __init__(self) -> None:
        self.tape = tf.GradientTape(persistent=True)
        graph = None if tf.executing_eagerly() else tf_ops.get_default_graph()
        self.recorder = Recorder(self.tape, graph)

    def __enter__(self) -> Tape:
        self.tape.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.tape.__exit__(*exception)

    def watch(self, variable: keras.Variable) -> None:
        """Frozen variables are not watched by themselves."""
        self.tape.watch(variable.value)

    def watch_tensor(self, tensor: Tensor) -> None:
        """Watches a plain tensor."""
        self.tape.watch(tensor)

    def native_gradient(self, target: Tensor, sources: Sequence[Any]) -> list[Any]:
        """Differentiates; sparse gradients come as `tf.IndexedSlices`."""
        native = [s.value if isinstance(s, keras.Variable) else s for s in sources]
        return list(self.tape.gradient(target, native))

    def gradient(self, target: Tensor, sources: Sequence[Any]) -> list[Any]:
        """Differentiates; may be asked again."""
        gradients = self.native_gradient(target, sources)
        return [
            Sparse(g.indices, g.values, tuple(s.shape))
            if isinstance(g, tf.IndexedSlices)
            else g
            for g, s in zip(gradients, sources, strict=True)
        ]

    def detached(self, target: Tensor) -> Tensor:
        """Returns the value of the target."""
        return target
