"""A model, a batch and a target: the question that every method answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import keras
import numpy as np
from keras import ops

from .._errors import GradwatchError, TargetError, arg, quoted, renamed
from ..engine import (
    Captured,
    Engine,
    Entry,
    PassOptions,
    dense,
    engine_for,
    fixed_batch,
    input_names,
)
from ..select import require_model, walk
from ..targets import Function, Target, as_target, mean_output
from ._axes import channel_axis
from ._checked import checked_batch_size
from ._place import Place
from ._rows import at_once, in_parts, rows_for
from ._tensors import (
    Tensors,
    input_tensors,
    joined,
    layer_tensors,
    selector,
    to_numpy,
)

Tensor = Any
Own = tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]
"""Scores, gradients and values of the batch as it is."""

Point = Callable[[int, np.ndarray], Sequence[np.ndarray]]
"""Returns an array for each of `free`: a point by its number, for some examples."""


@dataclass(frozen=True, slots=True)
class Held:
    """A batch for which layers give these values, whatever goes in."""

    x: Any
    tensors: Tensors


@dataclass(frozen=True, slots=True)
class PassValues:
    """The result of one pass: a score per row, and gradient and value per tensor."""

    scores: Tensor
    gradients: list[Tensor]
    values: list[Tensor]


class Problem:
    """The question of an attribution, at the inputs of a model or at a layer.

    Everything a method knows of a model comes from `gradients` and `scores`, which run
    one compiled pass each, on as many rows as they are given. A row is an example, by
    its number, at a point: numbers that take the place of its own at `free`.

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained.
        layer: Where: None for the inputs.
        free: `"layer"`: points take the place of what the layer gives; `"inputs"`:
            always of the inputs, wherever gradients are taken.
        rule: How gradients pass through nonlinearities.
        batch_size: Maximum number of rows of a pass.
    """

    def __init__(
        self,
        model: Any,
        x: Any,
        target: Any,
        layer: Any = None,
        *,
        free: str = "layer",
        rule: str | None = None,
        batch_size: int | None = None,
    ) -> None:
        require_model(model)
        self.model = model
        self.target = _target(target)
        self.layer = layer
        self.batch_size = checked_batch_size(batch_size)
        self.ruled = 0
        """Number of operations with another backward rule in the last pass."""
        self._wrt = (selector(layer),)
        self._rule = rule
        held = x if isinstance(x, Held) else None
        x = held.x if held else x
        batch = self._engine().ready(model, x, None, self.target)
        self.x = batch.unflatten(batch.tensors)["x"]
        self.size = batch.size
        self.tree = walk(model)
        self.at_inputs = layer is None
        self._held = held is not None
        self._inputs: Tensors | None = None
        if self.at_inputs or free == "inputs":
            self._inputs = input_tensors(
                model, self.x, self.tree, follows=not self.at_inputs
            )
        self._at = self._inputs if self.at_inputs else held.tensors if held else None
        self._own: Own | None = None

    # tensors --------------------------------------------------------------------------

    @property
    def at(self) -> Tensors:
        """The tensors of the gradients; known for a layer after a first pass."""
        if self._at is None:
            self.own()
        return cast(Tensors, self._at)

    @property
    def free(self) -> Tensors:
        """The tensors whose values points replace."""
        return self.at if self._inputs is None else self._inputs

    def own(self) -> Own:
        """Runs the batch as it is: scores, gradients and values."""
        if self._own is None:
            parts = []
            for part in in_parts(self.size, self.at_once(1)[0]):
                points = self.free.tensors(part.index) if self._held else None
                passed = self.gradients(part.index, points)
                values = [] if self.at_inputs else passed.values
                tensors = (passed.scores, *passed.gradients, *values)
                parts.append([to_numpy(tensor)[: part.real] for tensor in tensors])
            scores, *rest = map(joined, zip(*parts, strict=True))
            number = len(self.at.leaves)
            if not self.at_inputs:
                self._at = replace(self.at, values=rest[number:])
            self._own = scores, rest[:number], self.at.values
        return self._own

    def know(self, tensors: Tensors) -> None:
        """Sets what the layer gives, where no pass of its own can."""
        self._at = tensors

    def held(self, values: Sequence[np.ndarray]) -> Held:
        """Returns the batch with other numbers at the layer, to be explained so."""
        return Held(self.x, replace(self.at, values=list(values)))

    def values_of(self, x: Any) -> list[np.ndarray]:
        """Returns the numbers that another batch has at `free`."""
        ready = self._engine().ready(self.model, x, None, mean_output())
        x = ready.unflatten(ready.tensors)["x"]
        target = self.target.for_rows(np.zeros(ready.size, "int"))
        layer = None if self._inputs is not None else self.layer
        # A background of any length goes through in parts.
        batch_size = self.batch_size or self.at_once(1)[0]
        other = Problem(self.model, x, target, layer, batch_size=batch_size)
        values = dict(zip(other.free.names, other.free.values, strict=True))
        # A dict and a list have their inputs in another order, but the same names.
        named = set(values) == set(self.free.names)
        theirs = [values[n] for n in self.free.names] if named else [*values.values()]
        ours = self.free.values
        if [v.shape[1:] for v in theirs] != [v.shape[1:] for v in ours]:
            raise GradwatchError(
                f"{arg('baseline')} must give the shapes that `x` does, "
                f"{[v.shape[1:] for v in ours]} at {quoted(self.free.names)}. "
                f"Received: {[v.shape[1:] for v in theirs]}."
            )
        return theirs

    def takes(self, x: Any) -> bool:
        """Returns whether something has the shapes of the inputs."""
        flat, own = keras.tree.flatten(x), keras.tree.flatten(self.x)
        return len(flat) == len(own) and all(
            np.shape(a)[1:] == tuple(b.shape)[1:]
            for a, b in zip(flat, own, strict=True)
        )

    # passes ---------------------------------------------------------------------------

    def gradients(
        self, rows: np.ndarray, points: Sequence[Tensor] | None = None
    ) -> PassValues:
        """Runs forward and backward once.

        Args:
            rows: The example of each row.
            points: A tensor for each of `free`, with a row for each of `rows`; None
                for what the model itself has there.
        """
        captured = self._run(rows, points, differentiate=True)
        kind = "input" if self.at_inputs else "activation"
        by_leaf = {e.leaf: e for e in captured.entries if e.kind == kind}
        if self._at is None:
            self._at = layer_tensors([*by_leaf.values()], [])
        entries = [by_leaf[leaf] for leaf in self._at.leaves]
        gradients = [self._gradient(entry, entries) for entry in entries]
        self.ruled = captured.ruled
        return PassValues(
            captured.extras["scores"],
            gradients,
            [entry.value for entry in entries],
        )

    def scores(
        self, rows: np.ndarray, points: Sequence[Tensor] | None = None
    ) -> Tensor:
        """Runs forward only, and returns the target of each row."""
        return self._run(rows, points, differentiate=False).extras["scores"]

    def own_scores(self) -> np.ndarray:
        """Runs the batch as it is, forward only."""
        return joined(
            [
                to_numpy(self.scores(part.index))[: part.real]
                for part in in_parts(self.size, self.at_once(1)[0])
            ]
        )

    def scores_at(
        self, count: int, point: Point, tick: Callable[[float], None] | None = None
    ) -> np.ndarray:
        """Returns the target of each example at each of several points, forward only.

        Args:
            count: Number of points.
            point: Returns one of them. All examples of a point are drawn before those
                of the next.
            tick: Called with the number of points done.

        Returns:
            An array of shape [points, examples].
        """
        examples, several = self.at_once(count)
        scores = np.zeros((count, self.size))
        for some in in_parts(count, several):
            for part in in_parts(self.size, examples):
                rows = np.tile(part.index, several)
                blocks = [point(int(number), part.index) for number in some.index]
                arrays = [np.concatenate(block) for block in zip(*blocks, strict=True)]
                tensors = self.free.tensors(np.arange(len(rows)), arrays)
                values = to_numpy(self.scores(rows, tensors)).reshape(several, -1)
                index = np.ix_(some.index[: some.real], part.index[: part.real])
                scores[index] = values[: some.real, : part.real]
                if tick is not None:
                    tick(some.real * part.real / self.size)
        return scores

    def _run(
        self,
        rows: np.ndarray,
        points: Sequence[Tensor] | None,
        *,
        differentiate: bool,
    ) -> Captured:
        own = len(rows) == self.size and bool(np.all(rows == np.arange(self.size)))
        free: dict[str, Tensor] = {}
        given: Sequence[Tensor] = ()
        engine = self._engine(differentiate=differentiate)
        if points is not None and self._inputs is not None:
            free = dict(zip(self._inputs.names, points, strict=True))
        elif points is not None:
            given = points
            leaves = tuple(self.at.leaves)
            engine = self._engine(leaves, differentiate=differentiate)
        tensors = []
        flat = keras.tree.flatten(self.x)
        for name, tensor in zip(input_names(self.model, self.x), flat, strict=True):
            if name in free:
                tensor = free[name]
            elif not own and tensor is not None:
                tensor = ops.take(tensor, rows, axis=0)
            tensors.append(tensor)
        x = keras.tree.pack_sequence_as(self.x, tensors)
        target = self.target if own else self.target.for_rows(rows)
        with renamed(wrt="layer"):
            # Points come in numbers, the batch as it is once.
            loop = points is not None
            return engine.run(self.model, x, None, target, given, loop=loop)

    def _engine(
        self, given: tuple[Any, ...] = (), *, differentiate: bool = True
    ) -> Engine:
        # Forward only, no tap is needed but those that are given.
        wrt = self._wrt if differentiate or given else ()
        options = PassOptions(True, differentiate, self._rule, given)
        return engine_for(self.model, wrt, options)

    def _gradient(self, entry: Entry, entries: Sequence[Entry]) -> Tensor:
        if entry.gradient is not None:
            return dense(entry.gradient)
        reached = any(other.gradient is not None for other in entries)
        cause = entry.reason.cause if entry.reason else ""
        if self.at_inputs and reached and cause == "other_output":
            # Of several inputs, one that only other outputs look at adds nothing.
            return ops.zeros(entry.shape, entry.dtype)
        raise GradwatchError(
            f"{arg('target')} must depend on what it is attributed to, by a path that "
            f"has a gradient. Received: {self.target}, and no gradient at "
            f"{entry.name!r}. {entry.reason}"
        )

    # size of a pass -------------------------------------------------------------------

    def at_once(self, points: int) -> tuple[int, int]:
        """Returns the number of examples, and of points of each, that make one pass."""
        # A function may hold something for each example of the batch.
        held = self.batch_size is None and isinstance(self.target, Function)
        if held or fixed_batch(self.model):
            return self.size, 1
        rows = self.batch_size or max(self.size, rows_for(keras.tree.flatten(self.x)))
        return at_once(self.size, points, rows)

    # results --------------------------------------------------------------------------

    def channel_axes(
        self, tensors: Tensors, data_format: str | None = None
    ) -> list[int | None]:
        """Returns the channel axis of each tensor; None where it has none."""
        return [
            channel_axis(
                self.tree,
                None if leaf.kind == "input" else leaf.address,
                values.ndim,
                data_format,
            )
            for leaf, values in zip(tensors.leaves, tensors.values, strict=True)
        ]

    def places(
        self, values: Sequence[np.ndarray], data_format: str | None = None
    ) -> tuple[Place, ...]:
        """Returns attributions at `at` with names and axes."""
        at, axes = self.at, self.channel_axes(self.at, data_format)
        places = []
        for name, array, own, axis in zip(
            at.names, values, at.values, axes, strict=True
        ):
            kept = axis if array.ndim == own.ndim else None
            places.append(Place(name, array, own, kept))
        return tuple(places)

    def sources(self) -> tuple[Place, ...]:
        """Returns the inputs of the model, as results keep them."""
        names = input_names(self.model, self.x)
        flat = keras.tree.flatten(self.x)
        known: dict[str, np.ndarray] = {}
        if self._inputs is not None:
            known = dict(zip(self._inputs.names, self._inputs.values, strict=True))
        places = []
        for name, tensor in zip(names, flat, strict=True):
            if tensor is not None:
                array = known[name] if name in known else to_numpy(tensor)
                axis = channel_axis(self.tree, None, array.ndim)
                places.append(Place(name, array, array, axis))
        return tuple(places)


def _target(target: Any) -> Target:
    if target is None:
        raise TargetError(
            f"{arg('target')} must say what is explained. Received: None. For a class "
            "write `gradwatch.class_score(i)`, for a single output "
            "`gradwatch.output()`."
        )
    chosen = as_target(target)
    if chosen.uses_labels:
        raise TargetError(
            f"{arg('target')} must give one number per example, to be attributed to "
            f"each example's own numbers. Received: {chosen}. Use "
            "`gradwatch.class_score(i)`, `gradwatch.output(…)`, "
            "`gradwatch.mean_output()` or a function of the outputs."
        )
    return chosen
