"""A model, a batch and a target: what every method asks its questions of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import keras
import numpy as np
from keras import ops

from .._errors import GradwatchError, TargetError, quoted, told_as
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
from ._place import Place
from ._rows import at_once, checked_batch_size, in_parts, rows_for
from ._spots import Spots, host, joined, of_entries, of_inputs, selector

Tensor = Any
Own = tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]


@dataclass(frozen=True, slots=True)
class Held:
    """A batch in which layers give these numbers, whatever goes in."""

    x: Any
    spots: Spots


@dataclass(frozen=True, slots=True)
class Found:
    """What one pass gave: a number per row, and a tensor per spot."""

    scores: Tensor
    gradients: list[Tensor]
    values: list[Tensor]


class Problem:
    """What is explained, and where: the inputs of a model, or the output of a layer.

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
        batch_size: The most rows of a pass.
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
        """How many operations got another backward rule in the last pass."""
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
        self._inputs: Spots | None = None
        if self.at_inputs or free == "inputs":
            self._inputs = of_inputs(
                model, self.x, self.tree, follows=not self.at_inputs
            )
        self._at = self._inputs if self.at_inputs else held.spots if held else None
        self._own: Own | None = None

    # where ----------------------------------------------------------------------------

    @property
    def at(self) -> Spots:
        """Where gradients are taken; known for a layer after a first pass."""
        if self._at is None:
            self.own()
        return cast(Spots, self._at)

    @property
    def free(self) -> Spots:
        """Where points take the place of the model's own numbers."""
        return self.at if self._inputs is None else self._inputs

    def own(self) -> Own:
        """Runs the batch as it is: scores, gradients and values."""
        if self._own is None:
            parts = []
            for some in in_parts(self.size, self.at_once(1)[0]):
                points = self.free.tensors(some.index) if self._held else None
                found = self.gradients(some.index, points)
                values = [] if self.at_inputs else found.values
                tensors = (found.scores, *found.gradients, *values)
                parts.append([host(tensor)[: some.real] for tensor in tensors])
            scores, *rest = map(joined, zip(*parts, strict=True))
            number = len(self.at.leaves)
            if not self.at_inputs:
                self._at = replace(self.at, values=rest[number:])
            self._own = scores, rest[:number], self.at.values
        return self._own

    def know(self, spots: Spots) -> None:
        """Takes what the layer gives from elsewhere, where no pass of its own can."""
        self._at = spots

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
        found = dict(zip(other.free.names, other.free.values, strict=True))
        # A dict and a list have their inputs in another order, but the same names.
        named = set(found) == set(self.free.names)
        theirs = [found[n] for n in self.free.names] if named else [*found.values()]
        ours = self.free.values
        if [v.shape[1:] for v in theirs] != [v.shape[1:] for v in ours]:
            raise GradwatchError(
                "`baseline` must give the shapes that `x` does, "
                f"{[v.shape[1:] for v in ours]} at {quoted(self.free.names)}. "
                f"Received: {[v.shape[1:] for v in theirs]}."
            )
        return theirs

    def takes(self, x: Any) -> bool:
        """Whether something has the shapes of the inputs, so that it may be some."""
        flat, own = keras.tree.flatten(x), keras.tree.flatten(self.x)
        return len(flat) == len(own) and all(
            np.shape(a)[1:] == tuple(b.shape)[1:]
            for a, b in zip(flat, own, strict=True)
        )

    # passes ---------------------------------------------------------------------------

    def gradients(
        self, rows: np.ndarray, points: Sequence[Tensor] | None = None
    ) -> Found:
        """Runs forward and backward once.

        Args:
            rows: The example of each row.
            points: A tensor for each of `free`, with a row for each of `rows`; None
                for what the model itself has there.
        """
        captured = self._run(rows, points, differentiate=True)
        kind = "input" if self.at_inputs else "activation"
        found = [entry for entry in captured.entries if entry.kind == kind]
        if self._at is None:
            self._at = of_entries(found, [])
        by_leaf = {entry.leaf: entry for entry in found}
        entries = [by_leaf[leaf] for leaf in self._at.leaves]
        gradients = [self._gradient(entry, entries) for entry in entries]
        self.ruled = captured.ruled
        return Found(
            captured.extras["scores"],
            gradients,
            [entry.value for entry in entries],
        )

    def scores(
        self, rows: np.ndarray, points: Sequence[Tensor] | None = None
    ) -> Tensor:
        """Runs forward only, and returns the target of each row."""
        return self._run(rows, points, differentiate=False).extras["scores"]

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
        with told_as("layer", "wrt"):
            return engine.run(self.model, x, None, target, given)

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
            "`target` must depend on what it is attributed to, by a path that has a "
            f"gradient. Received: {self.target}, and no gradient at {entry.name!r}. "
            f"{entry.reason}"
        )

    # how much at a time ---------------------------------------------------------------

    def at_once(self, points: int) -> tuple[int, int]:
        """Returns how many examples, and how many points of each, make one pass."""
        # A function may hold something for each example of the batch.
        held = self.batch_size is None and isinstance(self.target, Function)
        if held or fixed_batch(self.model):
            return self.size, 1
        rows = self.batch_size or max(self.size, rows_for(keras.tree.flatten(self.x)))
        return at_once(self.size, points, rows)

    # what comes out -------------------------------------------------------------------

    def places(
        self, found: Sequence[np.ndarray], data_format: str | None = None
    ) -> tuple[Place, ...]:
        """Returns attributions at `at` with names and axes."""
        places = []
        at = self.at
        for leaf, name, values, activation in zip(
            at.leaves, at.names, found, at.values, strict=True
        ):
            address = None if leaf.kind == "input" else leaf.address
            axis = channel_axis(self.tree, address, activation.ndim, data_format)
            kept = axis if values.ndim == activation.ndim else None
            places.append(Place(name, values, activation, kept))
        return tuple(places)

    def sources(self) -> tuple[Place, ...]:
        """Returns the inputs of the model, as results keep them."""
        names = input_names(self.model, self.x)
        flat = keras.tree.flatten(self.x)
        known: dict[str, np.ndarray] = {}
        if self._inputs is not None:
            known = dict(zip(self._inputs.names, self._inputs.values, strict=True))
        found = []
        for name, tensor in zip(names, flat, strict=True):
            if tensor is not None:
                array = known[name] if name in known else host(tensor)
                axis = channel_axis(self.tree, None, array.ndim)
                found.append(Place(name, array, array, axis))
        return tuple(found)


def _target(target: Any) -> Target:
    if target is None:
        raise TargetError(
            "`target` must say what is explained. Received: None. For a class write "
            "`gradwatch.class_score(i)`, for a single output `gradwatch.output()`."
        )
    chosen = as_target(target)
    if chosen.uses_labels:
        raise TargetError(
            "`target` must give one number per example, to be attributed to each "
            f"example's own numbers. Received: {chosen}. Use "
            "`gradwatch.class_score(i)`, `gradwatch.output(…)`, "
            "`gradwatch.mean_output()` or a function of the outputs."
        )
    return chosen
