"""The engine: one forward and one backward pass, compiled once and kept."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import keras
from keras.src.backend import compute_output_spec

from .._errors import GradwatchError
from ..backends import Passed, Runner, current
from ..select import Tree, Wrt, resolve, walk
from ..targets import Loss, Target, prepared_loss
from ._batch import Batch, make_batch, require_loss
from ._entries import Entry, absent, entries
from ._guard import ensure_built, specifications, untouched
from ._leaf import Leaf
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


@dataclass(slots=True)
class _Prepared:
    runner: Runner
    absent: list[Entry]
    raw: list[Any]
    marks: Any


class Engine:
    """Runs passes over a model it does not own; keeps what was compiled.

    It holds no strong reference to the model, so that keeping an engine for a model
    does not keep the model.
    """

    def __init__(self, wrt: Wrt, *, training: bool | None, compiled: bool) -> None:
        self.wrt = wrt
        self.training = training
        self.compiled = compiled
        self.traces = 0
        self._prepared: OrderedDict[Hashable, _Prepared] = OrderedDict()
        self._lock = threading.RLock()

    def run(self, model: Any, x: Any, y: Any, target: Target) -> Captured:
        """Runs forward and backward once."""
        if not isinstance(model, keras.Layer):
            raise _not_a_model(model)
        if isinstance(target, Loss):
            require_loss(model, target)
        current().synchronise(model)
        batch = make_batch(model, x, y, target, _scale(model, target))
        ensure_built(model, batch.unflatten(batch.tensors)["x"])
        mode = target.training if self.training is None else self.training
        with self._lock:
            key = (fingerprint(model), target.key(), batch.signature, mode)
            prepared = self._prepared.get(key)
            if prepared is None or not _still_valid(prepared, model):
                return self._first(model, batch, target, mode, key)
            self._prepared.move_to_end(key)
        target.check(prepared.runner.outputs)
        with current().restored(prepared.raw):
            try:
                passed = prepared.runner(batch.tensors)
            except Exception as error:
                self._locate(model, batch, target, mode, error)
                raise
        return _captured(passed, prepared, batch)

    def _first(
        self, model: Any, batch: Batch, target: Target, mode: bool, key: Hashable
    ) -> Captured:
        """Traces, runs, and keeps what was compiled if the run went well."""
        tree = walk(model)
        program = _program(tree, self.wrt, batch, target, mode)
        specs = specifications(batch.unflatten(batch.tensors))

        def output_specs() -> Any:
            return compute_output_spec(model, specs["x"], training=False)

        with (
            untouched(tree),
            prepared_loss(model, target, specs["y"], output_specs),
        ):
            try:
                self.traces += 1
                runner = current().prepare(
                    program, program.variables, batch.tensors, compiled=self.compiled
                )
                passed = runner(batch.tensors)
            except Exception as error:
                _note(error, program, model)
                raise
        prepared = _Prepared(
            runner,
            absent(program.selection, tree, runner.facts),
            current().raw_state([tree.model, *(n.layer for n in tree.layers.values())]),
            _marks(model),
        )
        if current().COMPILES and self.compiled:
            self._prepared[key] = prepared
            while len(self._prepared) > KEPT:
                self._prepared.popitem(last=False)
        return _captured(passed, prepared, batch)

    def _locate(
        self, model: Any, batch: Batch, target: Target, mode: bool, error: Exception
    ) -> None:
        """Finds the layer behind an error of a compiled pass, by an eager one."""
        tree = walk(model)
        program = _program(tree, self.wrt, batch, target, mode)
        try:
            with untouched(tree):
                runner = current().prepare(
                    program, program.variables, batch.tensors, compiled=False
                )
                runner(batch.tensors)
        except Exception:  # noqa: BLE001 - only to learn where; `error` is raised
            _note(error, program, model)


def _program(
    tree: Tree, wrt: Wrt, batch: Batch, target: Target, mode: bool
) -> ForwardPass:
    selection = resolve(wrt, tree)
    variables = list(tree.model.variables)
    return ForwardPass(tree, selection, target, batch, mode, variables)


def fingerprint(model: Any) -> Hashable:
    """What a compiled pass depends on besides the batch: layers and what is frozen."""
    layers = tuple(id(layer) for layer in model._flatten_layers())
    variables = tuple((id(v), v.trainable) for v in model.variables)
    return (layers, variables)


def _marks(model: Any) -> Any:
    """Weak references to what `compile` replaces: ids may be used again."""
    parts = [getattr(model, "_compile_loss", None), getattr(model, "optimizer", None)]
    return [None if part is None else weakref.ref(part) for part in parts]


def _still_valid(prepared: _Prepared, model: Any) -> bool:
    parts = [getattr(model, "_compile_loss", None), getattr(model, "optimizer", None)]
    return all(
        (mark is None and part is None) or (mark is not None and mark() is part)
        for mark, part in zip(prepared.marks, parts, strict=True)
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
        return from_verdict(leaf, passed.verdicts.get(leaf), passed.facts)

    found = entries(passed.facts, passed.gradients, passed.kept, explain)
    x = batch.unflatten(batch.tensors)["x"]
    return Captured(passed.value, passed.outputs, found + prepared.absent, x)


def _note(error: Exception, program: ForwardPass, model: Any) -> None:
    """Says in which layer an error arose; our own errors say it themselves."""
    if isinstance(error, GradwatchError):
        error.__notes__ = []  # JAX notes how it shortened the traceback
        return
    address = program.facts.raised_in
    if address is not None:
        layer = type(program.tree.layers[address].layer).__name__
        error.add_note(
            f"gradwatch: raised inside layer {address!r} ({layer}) of {model.name!r}."
        )


def _not_a_model(model: object) -> Exception:
    return GradwatchError(
        "`model` must be a Keras 3 model or layer. Received: "
        f"{type(model).__module__}.{type(model).__name__}. Models of `tf_keras` or "
        "plain torch modules must be wrapped or rebuilt in Keras 3."
    )
