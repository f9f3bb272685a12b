"""One forward and one backward pass: a tape inside one `tf.function`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from .._common import shapes, suspicious, unscaled, without_cut
from .._flow import Verdict, analyse
from .._protocol import Leaf, Passed, Program, Runner, Sparse, Tensor
from .paths import flow_of
from .recorder import Recorder


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
        leaf: unscaled(as_sparse(gradient, tensor), outcome.scale)
        for (leaf, tensor), gradient in zip(recorder.leaves.items(), raw, strict=True)
    }
    return recorder, outcome, gradients


def as_sparse(gradient: Any, source: Any) -> Tensor | Sparse | None:
    """Returns TensorFlow's sparse gradients in our form."""
    if isinstance(gradient, tf.IndexedSlices):
        return Sparse(gradient.indices, gradient.values, tuple(source.shape))
    return gradient


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
                traced = Compiled(self.program, self.variables, tensors).verdicts
                verdicts = {
                    leaf: _judged(traced.get(leaf), gradient)
                    for leaf, gradient in gradients.items()
                }
        self.facts, self.outputs = outcome.facts, shapes(outcome.outputs)
        return Passed(
            outcome.value,
            outcome.outputs,
            without_cut(gradients, verdicts),
            recorder.kept,
            outcome.facts,
            verdicts,
            outcome.extras,
        )


def _judged(traced: Verdict | None, gradient: Any) -> Verdict:
    """Prefers what happened: a graph holds both branches, but not a loop's rounds."""
    if traced is not None and not traced.connected:
        return traced
    return Verdict(connected=gradient is not None)


class Compiled:
    """Traces the program once; holds the graph, not the program or the model."""

    compiled = True

    def __init__(
        self, program: Program, variables: Sequence[Any], tensors: Sequence[Tensor]
    ) -> None:
        self.facts: Any = None
        self.outputs: dict[str, tuple[int, ...]] = {}
        self.verdicts: dict[Leaf, Verdict] = {}
        # A graph gives back a flat list of tensors; this is what goes where.
        self._passed: Any = None

        def traced(*arguments: Tensor) -> list[Tensor]:
            recorder, outcome, gradients = run(program, variables, arguments)
            self.facts, self.outputs = outcome.facts, shapes(outcome.outputs)
            self.verdicts = analyse(flow_of(recorder, outcome))
            found = without_cut(gradients, self.verdicts)
            stowed = _Stowed()
            self._passed = Passed(
                stowed.put(outcome.value),
                {name: stowed.put(t) for name, t in outcome.outputs.items()},
                {leaf: stowed.put(gradient) for leaf, gradient in found.items()},
                {leaf: stowed.put(t) for leaf, t in recorder.kept.items()},
                outcome.facts,
                self.verdicts,
                {name: stowed.put(t) for name, t in outcome.extras.items()},
            )
            return stowed.tensors

        signature = [tf.type_spec_from_value(tensor) for tensor in tensors]
        function = tf.function(traced, autograph=False)
        self._function = function.get_concrete_function(*signature)
        # Concrete functions hold captured variables only weakly.
        self._variables = [v.value for v in variables]

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs the graph."""
        flat = self._function(*tensors)
        where = self._passed

        def fetch(place: Any) -> Any:
            if isinstance(place, Sparse):
                return Sparse(flat[place.indices], flat[place.values], place.shape)
            return None if place is None else flat[place]

        return Passed(
            fetch(where.value),
            {name: fetch(place) for name, place in where.outputs.items()},
            {leaf: fetch(place) for leaf, place in where.gradients.items()},
            {leaf: fetch(place) for leaf, place in where.kept.items()},
            where.facts,
            where.verdicts,
            {name: fetch(place) for name, place in where.extras.items()},
        )


class _Stowed:
    """A flat list of tensors, and the places they were put at."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []

    def put(self, item: Any) -> Any:
        if item is None:
            return None
        if isinstance(item, Sparse):
            return Sparse(self.put(item.indices), self.put(item.values), item.shape)
        self.tensors.append(item)
        return len(self.tensors) - 1


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
