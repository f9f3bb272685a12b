"""The engine: one forward and one backward pass, compiled once and kept."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import GradwatchError, told_as
from .._keras import all_layers, compiled_loss, compute_output_spec
from ..backends import Passed, Runner, current
from ..select import NOTHING, Tree, Wrt, require_model, resolve, walk
from ..targets import Loss, Target, prepared_loss
from ._batch import Batch, make_batch
from ._entries import Entry, absent, entries
from ._expected import require_loss
from ._guard import ensure_built, specifications, untouched
from ._leaf import Leaf
from ._manner import PLAIN, Manner
from ._places import address_in_traceback, note_place
from ._program import ForwardPass
from ._reasons import Reason, from_verdict

KEPT = 16
"""Compiled passes an engine keeps; the one unused for longest goes first."""


@dataclass(frozen=True, slots=True)
class Captured:
    """What one pass gave, by name."""

    value: Any
    outputs: dict[str, Any]
    entries: list[Entry]
    x: Any
    y: Any
    weights: dict[str, Any]
    """All variables by address, to say which of them are not finite."""
    extras: Mapping[str, Any]
    """The `scores` of the examples, where the pass is asked for them."""
    ruled: int
    """How many operations got another backward rule."""


@dataclass(slots=True)
class _Prepared:
    runner: Runner
    absent: list[Entry]
    raw: list[Any]
    weights: dict[str, Any]
    held: Any
    """What the key names by identity, kept so that no identity is used again."""
    marks: list[weakref.ref[Any] | None]


# Tracing lends things to the model for a while (a built loss, shadowed calls): one
# thread at a time, whatever the engine.
_tracing = threading.RLock()


class Engine:
    """Runs passes over a model it does not own; keeps what was compiled.

    It holds no strong reference to the model, so that keeping an engine for a model
    does not keep the model.
    """

    def __init__(
        self,
        wrt: Wrt,
        *,
        training: bool | None,
        compiled: bool,
        manner: Manner = PLAIN,
    ) -> None:
        for name, value in (("training", training), ("compiled", compiled)):
            absent_is_fine = name == "training" and value is None
            if not isinstance(value, bool) and not absent_is_fine:
                raise GradwatchError(
                    f"`{name}` must be True or False. Received: {value!r}."
                )
        self.wrt = wrt
        self.training = training
        self.compiled = compiled
        self.manner = manner
        self.traces = 0
        self._ready: weakref.WeakSet[Any] = weakref.WeakSet()
        self._prepared: OrderedDict[Hashable, _Prepared] = OrderedDict()

    def run(
        self, model: Any, x: Any, y: Any, target: Target, given: Sequence[Any] = ()
    ) -> Captured:
        """Runs forward and backward once.

        Args:
            model: The model.
            x: One batch of inputs.
            y: Its labels.
            target: What is differentiated.
            given: The activations that the manner of this engine says are given.
        """
        batch = self.ready(model, x, y, target, given)
        mode = target.training if self.training is None else self.training
        key = (_variables(model), target.key(), batch.signature, mode)
        with _tracing:
            prepared = self._prepared.get(key)
            if prepared is None or not _still_valid(prepared, model):
                return self._first(model, batch, target, mode, key)
            self._prepared.move_to_end(key)
        target.check(prepared.runner.outputs)
        with current().restored(prepared.raw):
            passed = self._execute(prepared.runner, model, batch, target, mode)
        return _captured(passed, prepared, batch)

    def ready(
        self, model: Any, x: Any, y: Any, target: Target, given: Sequence[Any] = ()
    ) -> Batch:
        """Checks what was given, and builds the model if it is not."""
        require_model(model)
        if isinstance(target, Loss):
            require_loss(model, target)
        current().synchronise(model)
        batch = make_batch(model, x, y, target, _scale(model, target), given)
        if model in self._ready:
            return batch
        mode = target.training if self.training is None else self.training
        with _tracing:
            try:
                ensure_built(model, batch.unflatten(batch.tensors)["x"], mode)
            except Exception as error:
                note_place(error, walk(model), address_in_traceback(error, walk(model)))
                raise
        self._ready.add(model)
        return batch

    def _first(
        self, model: Any, batch: Batch, target: Target, mode: bool, key: Hashable
    ) -> Captured:
        """Traces, runs, and keeps what was compiled if the run went well."""
        tree = walk(model)
        program = self._program(tree, batch, target, mode)
        layers = [tree.model, *(node.layer for node in tree.layers.values())]
        with self._lent(tree, batch, target):
            try:
                self.traces += 1
                runner = current().prepare(
                    program, program.variables, batch.tensors, compiled=self.compiled
                )
                if not runner.compiled:
                    passed = runner(batch.tensors)
            except Exception as error:
                _note(error, program)
                raise
            if runner.compiled:
                passed = self._execute(runner, model, batch, target, mode)
        prepared = _Prepared(
            runner,
            absent(program.selection, tree, runner.facts),
            current().raw_state(layers),
            {name: node.variable for name, node in tree.weights.items()},
            (list(model.variables), target.kept(), program.unlisted),
            _marks(model),
        )
        if runner.compiled:
            self._prepared[key] = prepared
            while len(self._prepared) > KEPT:
                self._prepared.popitem(last=False)
        return _captured(passed, prepared, batch)

    @contextlib.contextmanager
    def _lent(self, tree: Tree, batch: Batch, target: Target) -> Iterator[None]:
        """Readies a model for being traced, and takes everything back."""
        specs = specifications(batch.unflatten(batch.tensors))

        def outputs() -> Any:
            return compute_output_spec(tree.model, specs["x"], training=False)

        with untouched(tree), prepared_loss(tree.model, target, specs["y"], outputs):
            yield

    def _execute(
        self, runner: Runner, model: Any, batch: Batch, target: Target, mode: bool
    ) -> Passed:
        """Runs a compiled pass; if it fails, finds the layer by an eager one."""
        try:
            return runner(batch.tensors)
        except Exception as error:
            tree = walk(model)
            program = self._program(tree, batch, target, mode)
            try:
                with _tracing, self._lent(tree, batch, target):
                    current().prepare(
                        program, program.variables, batch.tensors, compiled=False
                    )(batch.tensors)
            except Exception:  # noqa: BLE001 - only to learn where it fails
                _note(error, program)
            raise

    def _program(
        self, tree: Tree, batch: Batch, target: Target, mode: bool
    ) -> ForwardPass:
        selection = resolve(self.wrt, tree) if self.wrt != () else NOTHING
        with told_as("layer", "wrt"):
            reads = resolve(target.reads, tree) if target.reads else NOTHING
        variables = list(tree.model.variables)
        return ForwardPass(
            tree, selection, target, batch, mode, variables, self.manner, reads
        )


def _variables(model: Any) -> Hashable:
    """Which weights there are, and which of them are frozen."""
    return tuple((id(v), v.trainable) for v in model.variables)


def _parts(model: Any) -> list[Any]:
    """What else a compiled pass depends on: the layers, and what `compile` sets."""
    compiled = [
        compiled_loss(model),
        getattr(model, "optimizer", None),
    ]
    return [*compiled, *all_layers(model, itself=False)]


def _marks(model: Any) -> list[weakref.ref[Any] | None]:
    return [None if part is None else weakref.ref(part) for part in _parts(model)]


def _still_valid(prepared: _Prepared, model: Any) -> bool:
    parts = _parts(model)
    return len(parts) == len(prepared.marks) and all(
        part is (None if mark is None else mark())
        for part, mark in zip(parts, prepared.marks, strict=True)
    )


def _scale(model: Any, target: Target) -> Any:
    """The loss scale that `fit` would use now, or None."""
    optimizer = getattr(model, "optimizer", None)
    if not isinstance(target, Loss) or optimizer is None:
        return None
    one = 1.0
    scaled = optimizer.scale_loss(one)
    return None if scaled is one else scaled


def _captured(passed: Passed, prepared: _Prepared, batch: Batch) -> Captured:
    def explain(leaf: Leaf) -> Reason:
        verdict = passed.verdicts.get(leaf)
        return from_verdict(leaf, verdict, passed.facts, len(passed.outputs))

    found = entries(passed.facts, passed.gradients, passed.kept, explain)
    data = batch.unflatten(batch.tensors)
    named = found + prepared.absent
    return Captured(
        passed.value,
        passed.outputs,
        named,
        data["x"],
        data["y"],
        prepared.weights,
        passed.extras,
        passed.facts.ruled,
    )


def _note(error: Exception, program: ForwardPass) -> None:
    """Says in which layer an error arose; our own errors say it themselves."""
    if isinstance(error, GradwatchError):
        error.__notes__ = []  # JAX notes how it shortened the traceback
        return
    if "is not a valid scope name" in str(error):
        error.add_note(
            "gradwatch: TensorFlow cannot compile a layer of that name, in `fit` "
            "neither. Rename the layer, or pass `compiled=False`."
        )
    if program.facts.in_target:
        error.add_note(
            f"gradwatch: raised while computing the target, {program.target}: "
            f"{program.facts.in_target}."
        )
        return
    address = program.facts.raised_in
    if address is None:
        address = address_in_traceback(error, program.tree)
    note_place(error, program.tree, address)
