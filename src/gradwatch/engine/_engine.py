"""The engine: one forward and one backward pass, compiled once and kept."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from ._options import PLAIN, PassOptions
from ._program import ForwardPass
from ._reasons import Reason, from_verdict

KEPT = 16
"""Maximum number of compiled passes of an engine; the least recently used goes."""


@dataclass(frozen=True, slots=True)
class Captured:
    """The results of one pass, by name.

    Attributes:
        value: The value of the target.
        outputs: The outputs of the model.
        entries: The gradients, and the reasons for missing ones.
        x: The inputs, as tensors.
        y: The labels, as tensors.
        weights: All variables by address, to report which of them are not finite.
        extras: The `scores` of the examples, if the pass was asked for them.
        ruled: Number of operations whose backward rule was replaced.
    """

    value: Any
    outputs: dict[str, Any]
    entries: list[Entry]
    x: Any
    y: Any
    weights: dict[str, Any]
    extras: Mapping[str, Any]
    ruled: int


@dataclass(slots=True)
class _Prepared:
    """A pass that is ready to run.

    `held` keeps the objects alive that the key of the pass identifies by their `id`.
    """

    runner: Runner
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
        compiled: bool,
        options: PassOptions = PLAIN,
    ) -> None:
        for name, value in (("training", training), ("compiled", compiled)):
            by_target = name == "training" and value is None
            if not isinstance(value, bool) and not by_target:
                raise GradwatchError(
                    f"`{name}` must be True or False. Received: {value!r}."
                )
        self.wrt = () if wrt == () else tuple(selectors(wrt))
        self.training = training
        self.compiled = compiled
        self.options = options
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
            y: Labels of the batch.
            target: The target to differentiate.
            given: The activations that the options of this engine declare as given.
        """
        batch = self.ready(model, x, y, target, given)
        variables = tuple((id(v), v.trainable) for v in model.variables)
        key = (variables, target.key(), batch.signature, self._mode(target))
        with _tracing:
            prepared = self._prepared.get(key)
            if prepared is None or prepared.parts != _parts(model):
                return self._first(model, batch, target, key)
            self._prepared.move_to_end(key)
        target.check(prepared.runner.outputs)
        with current().restored(prepared.raw):
            passed = self._execute(prepared.runner, model, batch, target)
        return _captured(passed, prepared, batch)

    def ready(
        self, model: Any, x: Any, y: Any, target: Target, given: Sequence[Any] = ()
    ) -> Batch:
        """Checks the arguments of `run`, and builds the model if necessary."""
        require_model(model)
        if isinstance(target, Loss):
            require_loss(model, target)
        current().synchronise(model)
        batch = make_batch(model, x, y, target, _scale(model, target), given)
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
        self, model: Any, batch: Batch, target: Target, key: Hashable
    ) -> Captured:
        """Traces and runs a pass, and keeps the compiled one if the run succeeds."""
        tree = walk(model)
        program = self._program(tree, batch, target)
        layers = [tree.model, *(node.layer for node in tree.layers.values())]
        with self._modified(tree, batch, target):
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
                passed = self._execute(runner, model, batch, target)
        prepared = _Prepared(
            runner,
            list(absent(program.selection, tree, runner.facts)),
            current().raw_state(layers),
            {name: node.variable for name, node in tree.weights.items()},
            _parts(model),
            (list(model.variables), target.kept(), program.unlisted),
        )
        if runner.compiled:
            self._prepared[key] = prepared
            while len(self._prepared) > KEPT:
                self._prepared.popitem(last=False)
        return _captured(passed, prepared, batch)

    @contextlib.contextmanager
    def _modified(self, tree: Tree, batch: Batch, target: Target) -> Iterator[None]:
        """Prepares a model for tracing, and restores it."""
        specs = specifications(batch.unflatten(batch.tensors))

        def outputs() -> Any:
            return compute_output_spec(tree.model, specs["x"], training=False)

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
                    current().prepare(
                        program, program.variables, batch.tensors, compiled=False
                    )(batch.tensors)
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
    compiled: bool = True,
) -> Engine:
    """Returns the engine that is kept for a model and these arguments.

    Args:
        model: The model. The engine is kept as long as the model.
        wrt: Selectors; the empty tuple selects nothing.
        options: Differences from the model's own forward pass.
        training: The mode of the forward pass; None leaves it to the target.
        compiled: False runs operation by operation.
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


def _scale(model: Any, target: Target) -> Any:
    """Returns the loss scale that `fit` would use now, or None."""
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

    named = entries(passed.facts, passed.gradients, passed.kept, explain)
    data = batch.unflatten(batch.tensors)
    return Captured(
        passed.value,
        passed.outputs,
        named + prepared.absent,
        data["x"],
        data["y"],
        prepared.weights,
        passed.extras,
        passed.facts.ruled,
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
