"""The forward pass of a model, as a program that every backend can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras

from .._errors import AddressError, arg, counted
from .._keras import mode_arguments
from ..backends import Outcome, Recorder, Tensor, current
from ..select import NOTHING, Leaf, Selection, Tree, matching_inputs, path_text
from ..targets import Setting, Target, named_outputs
from ._batch import Batch
from ._expected import symbolic_inputs
from ._reasons import TARGET
from ._rules import ruled
from ._session import Facts, Session


@dataclass(frozen=True, slots=True)
class PassOptions:
    """Options of a pass.

    Attributes:
        each: Whether the target is one number per example. The numbers are then in
            `Captured.extras["scores"]`.
        differentiate: False runs the forward pass only.
        rule: Name of another backward rule for nonlinearities; see `engine/_rules.py`.
        given: Activations that are passed with the batch instead of computed. The
            model continues from them.
    """

    each: bool = False
    differentiate: bool = True
    rule: str | None = None
    given: tuple[Leaf, ...] = ()


PLAIN = PassOptions()


class _Scope(keras.StatelessScope):
    """Keeps assignments away from the variables, and collects unlisted variables.

    An unlisted variable is read in the pass, but is not among `model.variables`.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(collect_losses=True, initialize_variables=False)
        self.recorder = recorder
        self.unlisted: list[Any] = []
        self.leaves: dict[int, Tensor] = {}

    def add_update(self, update: Any) -> None:
        """Assigns to a weight as a training step would.

        Where a training step really assigns (not on JAX), the assignment itself has no
        gradient, and the new value counts as the weight.
        """
        variable, value = update
        leaf = self.leaves.get(id(variable))
        if leaf is not None and current().ASSIGNMENTS_CUT:
            stop = keras.ops.stop_gradient
            value = stop(value) + (leaf - stop(leaf))
        super().add_update((variable, value))

    def get_current_value(self, variable: Any) -> Any:
        self.recorder.read(variable)
        value = self.state_mapping.get(id(variable))
        if value is None and not any(v is variable for v in self.unlisted):
            self.unlisted.append(variable)
        return value


@dataclass
class ForwardPass:
    """A program: taps and target, without a framework.

    `reads` selects what the target reads beside the outputs.
    """

    tree: Tree
    selection: Selection
    target: Target
    batch: Batch
    training: bool
    variables: list[Any]
    options: PassOptions = PLAIN
    reads: Selection = NOTHING
    unlisted: list[Any] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)

    def __call__(
        self, recorder: Recorder, values: Sequence[Tensor], tensors: Sequence[Tensor]
    ) -> Outcome:
        """Runs the model forward under the recorder."""
        parts = self.batch.unflatten(tensors)
        session = Session(
            self.tree,
            self.selection,
            recorder,
            reads=self.reads,
            given=dict(zip(self.options.given, parts["given"], strict=True)),
            differentiate=self.options.differentiate,
        )
        self.facts = session.facts
        scope = _Scope(recorder)
        own = zip(map(id, self.variables), values, strict=False)
        scope.state_mapping.update(own)
        self._mark_weights(recorder, scope)
        x = self._mark_inputs(session, parts["x"])
        model: Any = self.tree.model
        with scope, session.open(), ruled(self.options.rule, self.facts):
            outputs = model(x, **mode_arguments(model, self.training))
            sized = partial(current().with_rows, count=self.batch.size)
            outputs = keras.tree.map_structure(sized, outputs)
            named = named_outputs(model, outputs)
            self.target.check({n: tuple(t.shape) for n, t in named.items()})
            setting = Setting(
                model=model,
                x=x,
                y=parts["y"],
                outputs=outputs,
                batch_size=self.batch.size,
                training=self.training,
                arrays=parts["arrays"],
                read={leaf: sized(tensor) for leaf, tensor in session.read.items()},
            )
            with recorder.layer(TARGET):
                value, extras = self._value(setting, named)
        self.unlisted = scope.unlisted
        self._check_taps()
        return Outcome(value, parts["scale"], named, self.facts, extras)

    def _value(
        self, setting: Setting, outputs: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        try:
            if not self.options.each:
                return self.target.value(setting), {}
            scores = self.target.scores(setting)
            return keras.ops.sum(scores), {"scores": scores}
        except Exception:
            shapes = [f"output {n!r} {tuple(t.shape)}" for n, t in outputs.items()]
            labels = (t for t in keras.tree.flatten(setting.y) if t is not None)
            shapes += [f"`y` {tuple(label.shape)}" for label in labels]
            self.facts.in_target = ", ".join(shapes)
            raise

    def _mark_weights(self, recorder: Recorder, scope: _Scope) -> None:
        for name, node in self.selection.weights.items():
            leaf, variable = Leaf("weight", name), node.variable
            key = id(variable)
            self.facts.specs[leaf] = (tuple(variable.shape), variable.dtype)
            if "float" in variable.dtype:
                marked = recorder.mark(leaf, scope.state_mapping[key], keep=False)
                scope.state_mapping[key] = scope.leaves[key] = marked
            else:
                self.facts.not_float[leaf] = variable.dtype

    def _mark_inputs(self, session: Session, x: Any) -> Any:
        if not self.selection.inputs:
            return x
        names = input_names(self.tree.model, x)
        symbolic = symbolic_inputs(self.tree.model)
        alias = symbolic[0].name if symbolic else None
        wanted = matching_inputs(self.selection.inputs, names, alias)
        tensors = [
            session.mark(Leaf("input", name), tensor)
            if name in wanted and tensor is not None
            else tensor
            for name, tensor in zip(names, keras.tree.flatten(x), strict=True)
        ]
        return keras.tree.pack_sequence_as(x, tensors)

    def _check_taps(self) -> None:
        """Rejects a call of a layer, or a tensor of its output, that does not exist."""
        for tap in self.selection.taps:
            times = self.facts.calls[tap.address]
            if times and tap.call > times:
                raise AddressError(
                    f"{arg('wrt')} must name a call that happens. Received: "
                    f"'{tap.address}@{tap.call}'; {tap.address!r} is called "
                    f"{counted(times, 'time')} in this pass."
                )
            tensors = {(leaf.address, leaf.at, leaf.path) for leaf in self.facts.specs}
            exists = (tap.address, tap.at, tap.path) in tensors
            if tap.path and times and not exists:
                raise AddressError(
                    f"{arg('wrt')} must name a tensor that {tap.address!r} gives. "
                    f"Received: '{tap.address}{tap.path}'. "
                    f"{self._outputs_of(tap.address)}"
                )

    def _outputs_of(self, address: str) -> str:
        output = getattr(self.tree.layers[address].layer, "output", None)
        if output is None:
            return f"Ask for {address!r} to see what it gives."
        flat = keras.tree.flatten_with_path(output)
        return f"It gives {[f'{address}{path_text(path)}' for path, _ in flat]}."


def input_names(model: Any, x: Any) -> list[str]:
    """Names the inputs: `inputs`, or `inputs[key]` for each of several.

    A list passed to a functional model takes the names of its `keras.Input`s.
    """
    flat = keras.tree.flatten_with_path(x)
    if not keras.tree.is_nested(x):
        return ["inputs"]
    names = [spec.name for spec in symbolic_inputs(model) or ()]
    if not isinstance(x, dict) and len(names) == len(flat) == len(set(names)):
        return [f"inputs[{name}]" for name in names]
    return [f"inputs{path_text(path)}" for path, _ in flat]
