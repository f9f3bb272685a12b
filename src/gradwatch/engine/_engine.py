"""The engine: one forward and one backward pass, compiled once and kept."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import keras

from .._errors import GradwatchError, renamed
from .._keras import all_layers, compiled_loss, compute_output_spec
from ..backends import Passed, Runner, current
from ..select import NOTHING, Leaf, Tree, Wrt, require_model, resolve, selectors, walk
from ..targets import Loss, Target, prepared_loss
from ._batch import Batch, make_batch
from ._entries import Entry, absent, entries
from ._expected import require_loss
from ._guard import ensure_built, specifications, untouched
from ._layer_notes import address_in_traceback, note_layer
from ._program import PLAIN, ForwardPass, PassOptions
from ._reasons import Reason, from_verdict

KEPT = 16
"""Maximum number of compiled passes of an engine; the least recently used goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured(Passed):
    """A pass with its results by name.

    Attributes:
        entries: The gradients, and the reasons for missing ones.
        parts: The inputs `x`, the labels `y` and the rest of the batch, as tensors.
        weights: All variables by address, to report which of them are not finite.
    """

    entries: list[Entry]
    parts: dict[str, Any]
    weights: dict[str, Any]


@dataclass(slots=True)
class _Prepared:
    """A pass that is ready to run; without a runner, one that ran once, uncompiled.

    `held` keeps the objects alive that the key of the pass identifies by their `id`.
    """

    runner: Runner | None
    shapes: dict[str, tuple[int, ...]]
    absent: list[Entry]
    raw: list[Any]
    weights: dict[str, Any]
    parts: list[weakref.ref[Any] | None]
    held: Any


# Tracing modifies the model for a while (a built loss, shadowed calls), so only one
# thread at a time traces, with whichever engine.
_tracing = threading.RLock()


class Engine:
    """Runs passes over models, and keeps the compiled ones.

    An engine holds no strong reference to a model, so keeping an engine for a model
    does not keep the model alive.
    """

    def __init__(
        self,
        wrt: Wrt,
        *,
        training: bool | None,
        compiled: bool | None,
        options: PassOptions = PLAIN,
    ) -> None:
        for name, value in (("training", training), ("compiled", compiled)):
            if not isinstance(value, bool) and value is not None:
                raise GradwatchError(
                    f"`{name}` must be True or False. Received: {value!r}."
                )
        self.wrt = () if wrt == () else tuple(selectors(wrt))
        self.training = training
        self.compiled = (compiled is None and current().COMPILES_FIRST) or compiled
        self.options = options
        self.traces = 0
        self._ready: weakref.WeakSet[Any] = weakref.WeakSet()
        self._prepared: OrderedDict[Hashable, _Prepared] = OrderedDict()

    def run(
        self,
        model: Any,
        x: Any,
        y: Any,
        target: Target,
        *given: Any,
        loop: bool = False,
    ) -> Captured:
        """Runs forward and backward once.

        Args:
            model: The model.
            x: One batch of inputs.
            y: Labels of the batch.
            target: The target to differentiate.
            *given: The activations that the options of this engine declare as given.
            loop: True if more passes of this signature follow, so that the first one
                is worth compiling.
        """
        batch = self.ready(model, x, y, target, *given)
        variables = tuple((id(v), v.trainable) for v in model.variables)
        key = (variables, target.key(), batch.signature, self._mode(target))
        with _tracing:
            prepared = self._prepared.get(key)
            runner = prepared.runner if prepared is not None else None
            if prepared is None or runner is None or prepared.parts != _parts(model):
                once = self.compiled is None and prepared is None and not loop
                return self._first(model, batch, target, key, once=once)
            self._prepared.move_to_end(key)
        target.check(prepared.shapes)
        with current().restored(prepared.raw):
            passed = self._execute(runner, model, batch, target)
        return _captured(passed, prepared, batch)

    def ready(self, model: Any, x: Any, y: Any, target: Target, *given: Any) -> Batch:
        """Checks the arguments of `run`, and builds the model if necessary."""
        require_model(model)
        if isinstance(target, Loss):
            require_loss(model, target)
        current().synchronise(model)
        batch = make_batch(model, x, y, target, given)
        if model in self._ready:
            return batch
        with _tracing:
            try:
                inputs = batch.unflatten(batch.tensors)["x"]
                ensure_built(model, inputs, self._mode(target))
            except Exception as error:
                tree = walk(model)
                note_layer(error, tree, address_in_traceback(error, tree))
                raise
        self._ready.add(model)
        return batch

    def _mode(self, target: Target) -> bool:
        return target.training if self.training is None else self.training

    def _first(
        self, model: Any, batch: Batch, target: Target, key: Hashable, *, once: bool
    ) -> Captured:
        """Runs a pass that is not compiled yet, and keeps it if the run succeeds.

        With `once` it stays uncompiled, where the backend can run it so. It is noted
        all the same: the next pass of the same key compiles.
        """
        tree = walk(model)
        program = self._program(tree, batch, target)
        layers = [tree.model, *(node.layer for node in tree.layers.values())]
        runner = passed = None
        with self._modified(tree, batch, target):
            if once:
                passed = _once(program)
            if passed is None:
                runner, passed = self._prepare_and_run(program)
        prepared = _Prepared(
            runner,
            {name: tuple(output.shape) for name, output in passed.outputs.items()},
            list(absent(program.selection, tree, passed.facts)),
            current().raw_state(layers),
            {name: node.variable for name, node in tree.weights.items()},
            _parts(model),
            (list(model.variables), target.kept(), program.unlisted),
        )
        if runner is None or runner.compiled:
            self._prepared[key] = prepared
            while len(self._prepared) > KEPT:
                self._prepared.popitem(last=False)
        return _captured(passed, prepared, batch)

    def _prepare_and_run(self, program: ForwardPass) -> tuple[Runner, Passed]:
        """Prepares a pass and runs it; one that cannot be compiled may run as it is."""
        runner, batch = None, program.batch
        self.traces += 1
        try:
            runner = _prepare(program, compiled=self.compiled is not False)
            if not runner.compiled:
                return runner, runner(batch.tensors)
        except Exception as error:
            _note(error, program)
            chosen = self.compiled is not None or isinstance(error, GradwatchError)
            if runner is None and not chosen:
                with contextlib.suppress(Exception):
                    runner = _prepare(program, compiled=False)
                    return runner, runner(batch.tensors)
            raise
        return runner, self._execute(runner, program.tree.model, batch, program.target)

    @contextlib.contextmanager
    def _modified(self, tree: Tree, batch: Batch, target: Target) -> Iterator[None]:
        """Prepares a model for tracing, and restores it."""
        specs = specifications(batch.unflatten(batch.tensors))
        outputs = partial(compute_output_spec, tree.model, specs["x"], training=False)
        with untouched(tree), prepared_loss(tree.model, target, specs["y"], outputs):
            yield

    def _execute(
        self, runner: Runner, model: Any, batch: Batch, target: Target
    ) -> Passed:
        """Runs a compiled pass; if it fails, an eager one finds the layer."""
        try:
            return runner(batch.tensors)
        except Exception as error:
            tree = walk(model)
            program = self._program(tree, batch, target)
            try:
                with _tracing, self._modified(tree, batch, target):
                    _prepare(program, compiled=False)(batch.tensors)
            except Exception:  # noqa: BLE001 - only to learn where it fails
                _note(error, program)
            raise

    def _program(self, tree: Tree, batch: Batch, target: Target) -> ForwardPass:
        selection = resolve(self.wrt, tree) if self.wrt else NOTHING
        with renamed(wrt="layer"):
            reads = resolve(target.reads, tree) if target.reads else NOTHING
        mode, variables = self._mode(target), list(tree.model.variables)
        return ForwardPass(
            tree, selection, target, batch, mode, variables, self.options, reads
        )


# The only cache of engines: a call in a loop must not trace again. The engines are
# attached to the model by a weak reference and disappear with it.
_engines: weakref.WeakKeyDictionary[keras.Layer, dict[Hashable, Engine]] = (
    weakref.WeakKeyDictionary()
)


def engine_for(
    model: Any,
    wrt: Wrt,
    options: PassOptions = PLAIN,
    *,
    training: bool | None = False,
    compiled: bool | None = None,
) -> Engine:
    """Returns the engine that is kept for a model and these arguments.

    Args:
        model: The model. The engine is kept as long as the model.
        wrt: Selectors; the empty tuple selects nothing.
        options: Differences from the model's own forward pass.
        training: The mode of the forward pass; None leaves it to the target.
        compiled: False runs operation by operation; None compiles the second pass of
            a signature, where a single one is faster uncompiled.
    """
    fresh = Engine(wrt, training=training, compiled=compiled, options=options)
    require_model(model)
    key = (fresh.wrt, training, compiled, options)
    return _engines.setdefault(model, {}).setdefault(key, fresh)


def _parts(model: Any) -> list[weakref.ref[Any] | None]:
    """Returns the other objects that a compiled pass depends on.

    These are the layers, and the loss and optimizer that `compile` sets.
    """
    own = [compiled_loss(model), getattr(model, "optimizer", None)]
    parts = [*own, *all_layers(model, itself=False)]
    return [None if part is None else weakref.ref(part) for part in parts]


def _prepare(program: ForwardPass, *, compiled: bool) -> Runner:
    tensors = program.batch.tensors
    return current().prepare(program, program.variables, tensors, compiled=compiled)


def _once(program: ForwardPass) -> Passed | None:
    """Runs a pass uncompiled; None if a compiled one could give another result."""
    # In half precision, operations that a compiler fuses round differently.
    dtypes = {layer.compute_dtype for layer in all_layers(program.tree.model)}
    if not dtypes.isdisjoint(("float16", "bfloat16")):
        return None
    passed = current().once(program, program.variables, program.batch.tensors)
    if passed is None:
        return None
    unreached = absent(program.selection, program.tree, passed.facts)
    is_frozen = {entry.name for entry in unreached} <= program.selection.frozen.keys()
    return passed if is_frozen else None


def _captured(passed: Passed, prepared: _Prepared, batch: Batch) -> Captured:
    def explain(leaf: Leaf) -> Reason:
        verdict = passed.verdicts.get(leaf)
        return from_verdict(leaf, verdict, passed.facts, len(passed.outputs))

    named = entries(passed.facts, passed.gradients, passed.kept, explain)
    return Captured(
        **{field.name: getattr(passed, field.name) for field in fields(passed)},
        entries=named + prepared.absent,
        parts=batch.unflatten(batch.tensors),
        weights=prepared.weights,
    )


def _note(error: Exception, program: ForwardPass) -> None:
    """Adds to an error where it was raised; errors of gradwatch already say it."""
    if isinstance(error, GradwatchError):
        error.__notes__ = []  # JAX adds a note about how it shortened the traceback.
        return
    if "is not a valid scope name" in str(error):
        error.add_note(
            "gradwatch: TensorFlow cannot compile a layer of that name, not even in "
            "`fit`. Rename the layer, or pass `compiled=False`."
        )
    facts = program.facts
    if facts.in_target:
        error.add_note(
            f"gradwatch: raised while computing the target, {program.target}: "
            f"{facts.in_target}."
        )
        return
    address = facts.raised_in
    if address is None:
        address = address_in_traceback(error, program.tree)
    note_layer(error, program.tree, address)
