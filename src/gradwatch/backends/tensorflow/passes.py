"""One forward and one backward pass: a tape inside one `tf.function`."""

from __future__ import annotations

import bisect
import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from .._common import passed, scaled, suspicious, unscaled
from .._flow import Verdict, analyse
from .._protocol import Leaf, Passed, Program, Recorder, Sparse, Tensor
from .graph import flow_of

ROUNDS = 100
"""Number of rounds up to which a loop is faster uncompiled, if it runs once."""
CONTROL_FLOW = {
    "tensorflow.python.framework.smart_cond",
    "tensorflow.python.ops.cond",
    "tensorflow.python.ops.control_flow_case",
    "tensorflow.python.ops.control_flow_switch_case",
    "tensorflow.python.ops.while_loop",
}
"""Modules whose functions call a body or a branch, which a graph keeps to itself."""


class TFRecorder(Recorder):
    """Marks tensors by a fresh identity that the tape watches."""

    def __init__(self, tape: tf.GradientTape) -> None:
        self.tape = tape
        self.graph = None if tf.executing_eagerly() else tf_ops.get_default_graph()
        self.leaves: dict[Leaf, Tensor] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self._addresses: dict[Any, list[tuple[int, str]]] = {}

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
        if tf.executing_eagerly():
            return True
        graph = tf_ops.get_default_graph()
        # `vectorized_map` traces its body into the same graph, under this scope.
        in_map = "loop_body" in graph.get_name_scope().split("/")
        return graph is self.graph and not in_map

    def is_dense(self, tensor: object) -> bool:
        """Ragged and sparse tensors are composites."""
        return isinstance(tensor, tf.Tensor)

    @contextlib.contextmanager
    def layer(self, address: str) -> Iterator[None]:
        """Remembers from which number on the operations of a graph are of a layer."""
        if tf.executing_eagerly():
            yield
            return
        graph = tf_ops.get_default_graph()
        addresses = self._addresses.setdefault(graph, [(0, "")])
        outer = addresses[-1][1]
        addresses.append((graph.version, address))
        try:
            yield
        finally:
            addresses.append((graph.version, outer))

    def address_of(self, op: Any) -> str:
        """Returns the address of the layer that made an operation."""
        addresses = self._addresses.get(op.graph, [(0, "")])
        # An operation is numbered by the version of the graph after it was added.
        position = bisect.bisect_left(addresses, (op._id - 1, "")) - 1
        return addresses[max(position, 0)][1]


class OnceRecorder(TFRecorder):
    """Marks tensors in an uncompiled pass, while a compiled one would do the same."""

    def __init__(self, tape: tf.GradientTape) -> None:
        super().__init__(tape)
        self.differs = False
        self._reads: Counter[int] = Counter()

    def can_leave(self, tensor: Tensor) -> bool:
        """Stops in a loop or a branch, which no tensor leaves in a compiled pass."""
        self._stop_if(_in_control_flow())
        return super().can_leave(tensor)

    @contextlib.contextmanager
    def layer(self, address: str) -> Iterator[None]:
        """Stops in a `tf.function` of the model, before it keeps this trace."""
        del address
        self._stop_if(not tf.executing_eagerly())
        yield

    def read(self, variable: Any) -> None:
        """Stops in a `tf.function` too, and in a loop that is faster compiled."""
        self._reads[id(variable)] += 1
        is_long = self._reads[id(variable)] > ROUNDS and _in_control_flow()
        self._stop_if(is_long or not tf.executing_eagerly())

    def _stop_if(self, differs: bool) -> None:
        if differs:
            self.differs = True  # The model may handle the error.
            raise RuntimeError("Only a compiled pass can tell.")


def _in_control_flow() -> bool:
    """Returns whether the caller is the body of a loop or a branch of TensorFlow."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") in CONTROL_FLOW:
            return True
        frame = frame.f_back
    return False


def run(
    program: Program,
    variables: Sequence[Any],
    tensors: Sequence[Tensor],
    kind: type[TFRecorder] = TFRecorder,
) -> Any:
    """Runs a program forward and backward; returns all there is to know."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        recorder = kind(tape)
        values = [tf.convert_to_tensor(v.value) for v in variables]
        outcome = program(recorder, values, tensors)
        target = scaled(outcome)
    raw = tape.gradient(target, list(recorder.leaves.values()))
    gradients = {
        leaf: unscaled(as_sparse(gradient, tensor), outcome.scale)
        for (leaf, tensor), gradient in zip(recorder.leaves.items(), raw, strict=True)
    }
    return recorder, outcome, gradients


def as_sparse(gradient: Any, source: Any) -> Tensor | Sparse | None:
    """Returns TensorFlow's sparse gradients in our form."""
    if isinstance(gradient, tf.IndexedSlices):
        return Sparse(gradient.indices, gradient.values, tuple(source.shape))
    return gradient


def once(
    program: Program, variables: Sequence[Any], tensors: Sequence[Tensor]
) -> Passed | None:
    """Runs a program uncompiled; None if a compiled pass could give another result."""
    try:
        recorder, outcome, gradients = run(program, variables, tensors, OnceRecorder)
    except Exception:  # noqa: BLE001 - the compiled pass raises what is to be raised
        return None
    # A graph says why a gradient is missing, and whether a zero is one.
    if recorder.differs or suspicious(gradients):
        return None
    return passed(outcome, gradients, recorder.kept, {})


class TFEager:
    """Runs the program operation by operation."""

    compiled = False

    def __init__(self, program: Program, variables: Sequence[Any]) -> None:
        self.program = program
        self.variables = variables

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once."""
        recorder, outcome, gradients = run(self.program, self.variables, tensors)
        verdicts: dict[Leaf, Verdict] = {}
        if suspicious(gradients):
            # Some models run only eagerly; then there is no graph to explain by.
            with contextlib.suppress(Exception):
                traced = TFCompiled(self.program, self.variables, tensors).traced
                verdicts = {
                    leaf: _judged(traced.verdicts.get(leaf), gradient)
                    for leaf, gradient in gradients.items()
                }
        return passed(outcome, gradients, recorder.kept, verdicts)


def _judged(traced: Verdict | None, gradient: Any) -> Verdict:
    """Prefers what happened: a graph holds both branches, but not a loop's rounds."""
    if traced is not None and not traced.connected:
        return traced
    return Verdict(connected=gradient is not None)


class TFCompiled:
    """Traces the program once; holds the graph, not the program or the model."""

    compiled = True
    traced: Passed
    """A graph returns lists of tensors; this shows which is which."""

    def __init__(
        self, program: Program, variables: Sequence[Any], tensors: Sequence[Tensor]
    ) -> None:
        def traced(*arguments: Tensor) -> list[Any]:
            recorder, outcome, gradients = run(program, variables, arguments)
            verdicts = analyse(flow_of(recorder, outcome))
            self.traced = passed(outcome, gradients, recorder.kept, verdicts)
            groups = (getattr(self.traced, name).values() for name in _GROUPS)
            return [self.traced.value, *([*map(_native, each)] for each in groups)]

        signature = [tf.type_spec_from_value(tensor) for tensor in tensors]
        function = tf.function(traced, autograph=False)
        self._function = function.get_concrete_function(*signature)
        # Concrete functions hold captured variables only weakly.
        self._variables = [v.value for v in variables]

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs the graph."""
        value, *groups = self._function(*tensors)
        filled: dict[str, Any] = {}
        for name, group in zip(_GROUPS, groups, strict=True):
            traced = getattr(self.traced, name).items()
            each = zip(traced, group, strict=True)
            filled[name] = {key: as_sparse(new, old) for (key, old), new in each}
        return replace(self.traced, value=value, **filled)


_GROUPS = ("outputs", "gradients", "kept", "extras")
"""The tensors of a pass by name."""


def _native(item: Any) -> Any:
    """Returns a sparse gradient in the form that a graph can return."""
    is_sparse = isinstance(item, Sparse)
    return tf.IndexedSlices(item.values, item.indices) if is_sparse else item


class TFTape:
    """The tape behind `gradwatch.Tape`: a persistent `tf.GradientTape`."""

    def __init__(self) -> None:
        self.tape = tf.GradientTape(persistent=True)
        self.recorder = TFRecorder(self.tape)

    def __enter__(self) -> TFTape:
        self.tape.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.tape.__exit__(*exception)

    def watch(self, tensor: Tensor) -> None:
        """Watches a plain tensor or a frozen weight: neither is watched by itself."""
        self.tape.watch(tensor)

    def native_gradient(
        self, target: Tensor, sources: Sequence[Any], **options: Any
    ) -> list[Any]:
        """Differentiates; sparse gradients come as `tf.IndexedSlices`."""
        native = [s.value if isinstance(s, keras.Variable) else s for s in sources]
        return list(self.tape.gradient(target, native, **options))

    def gradient(self, target: Tensor, sources: Sequence[Any]) -> list[Any]:
        """Differentiates; may be called more than once."""
        gradients = self.native_gradient(target, sources)
        return [as_sparse(g, s) for g, s in zip(gradients, sources, strict=True)]
