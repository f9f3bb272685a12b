"""The forward pass of a model, as a program that every backend can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

from .._errors import AddressError, arg, counted
from .._keras import mode_arguments
from ..backends import Outcome, Recorder, Tensor, current
from ..select import NOTHING, Leaf, Selection, Tree, matching_inputs, path_text
from ..targets import Setting, Target, named_outputs
from ._batch import Batch
from ._options import PLAIN, PassOptions
from ._reasons import TARGET
from ._rules import ruled
from ._session import Facts, Session


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
        for variable, value in zip(self.variables, values, strict=False):
            scope.state_mapping[id(variable)] = value
        self._mark_weights(recorder, scope)
        x = self._mark_inputs(recorder, parts["x"])
        model: Any = self.tree.model
        with scope, session.open(), ruled(self.options.rule, self.facts):
            outputs = model(x, **mode_arguments(model, self.training))
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
                read=session.read,
            )
            with recorder.place(TARGET):
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
            shapes += [
                f"`y` {tuple(t.shape)}"
                for t in keras.tree.flatten(setting.y)
                if t is not None
            ]
            self.facts.in_target = ", ".join(shapes)
            raise

    def _mark_weights(self, recorder: Recorder, scope: _Scope) -> None:
        for name, node in self.selection.weights.items():
            leaf, variable = Leaf("weight", name), node.variable
            value = scope.state_mapping[id(variable)]
            marked = self._marked(recorder, leaf, value, variable)
            scope.state_mapping[id(variable)] = marked
            if leaf not in self.facts.not_float:
                scope.leaves[id(variable)] = marked

    def _mark_inputs(self, recorder: Recorder, x: Any) -> Any:
        if not self.selection.inputs:
            return x
        names = input_names(self.tree.model, x)
        symbolic = getattr(self.tree.model, "inputs", None)
        alias = symbolic[0].name if isinstance(symbolic, list) and symbolic else None
        wanted = matching_inputs(self.selection.inputs, names, alias)
        tensors = [
            self._marked(recorder, Leaf("input", name), tensor, tensor)
            if name in wanted and tensor is not None
            else tensor
            for name, tensor in zip(names, keras.tree.flatten(x), strict=True)
        ]
        return keras.tree.pack_sequence_as(x, tensors)

    def _marked(
        self, recorder: Recorder, leaf: Leaf, tensor: Tensor, spec: Any
    ) -> Tensor:
        """Marks a tensor for differentiation, if it can have a gradient."""
        dtype = keras.backend.standardize_dtype(spec.dtype)
        self.facts.specs[leaf] = (tuple(spec.shape), dtype)
        is_input = leaf.kind == "input"
        if "float" in dtype and (not is_input or recorder.is_dense(tensor)):
            return recorder.mark(leaf, tensor, keep=is_input)
        self.facts.not_float[leaf] = dtype
        return tensor

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
        layer: Any = self.tree.layers[address].layer
        try:
            flat = keras.tree.flatten_with_path(layer.output)
            names = [f"{address}{path_text(path)}" for path, _ in flat]
            return f"It gives {names}."
        except AttributeError:
            return f"Ask for {address!r} to see what it gives."


def input_names(model: Any, x: Any) -> list[str]:
    """Names the inputs: `inputs`, or `inputs[key]` for each of several.

    A list passed to a functional model takes the names of its `keras.Input`s.
    """
    flat = keras.tree.flatten_with_path(x)
    if not keras.tree.is_nested(x):
        return ["inputs"]
    symbolic = getattr(model, "inputs", None)
    if not isinstance(x, dict) and isinstance(symbolic, list):
        names = [spec.name for spec in symbolic]
        if len(names) == len(flat) and len(set(names)) == len(names):
            return [f"inputs[{name}]" for name in names]
    return [f"inputs{path_text(path)}" for path, _ in flat]
