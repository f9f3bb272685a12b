"""A model, a batch and a target: the question that every method answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import keras
import numpy as np
from keras import ops

from .._errors import GradwatchError, TargetError, arg, quoted, renamed, require
from ..engine import (
    Captured,
    Engine,
    Entry,
    Leaf,
    PassOptions,
    dense,
    engine_for,
    fixed_batch,
    input_names,
)
from ..select import require_model, walk
from ..targets import Function, Loss, Target, as_target, mean_output
from ._axes import channel_axis
from ._checked import check
from ._place import Place
from ._rows import at_once, in_parts, rows_for
from ._tensors import (
    Tensors,
    dtype_of,
    is_float,
    selector,
    to_numpy,
    whole_numbers,
)

Tensor = Any
Point = Callable[[int, np.ndarray], Sequence[np.ndarray]]
"""Returns an array for each of `free`: a point by its number, for some examples."""


@dataclass(frozen=True, slots=True)
class Held:
    """A batch for which layers give these values, whatever goes in."""

    x: Any
    tensors: Tensors


class Problem:
    """The question of an attribution, at the inputs of a model or at a layer.

    Everything a method knows of a model comes from `passes`, each of which is compiled
    and has the same number of rows. A row is an example at a point: numbers that take
    the place of its own at `free`.

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained.
        layer: Where: None for the inputs.
        free: `"layer"`: points take the place of what the layer gives; `"inputs"`:
            always of the inputs, wherever gradients are taken; `"floats"`: of the
            inputs, where they are floating-point numbers.
        rule: How gradients pass through nonlinearities.
        batch_size: Maximum number of rows of a pass.
        data_format: Where the layer has its channels, if the caller says so.
        labels: A tuple of `y`, where the target may be a loss.

    Attributes:
        sources: The inputs of the model, as results keep them.
        ruled: Number of operations with another backward rule in the last pass.
    """

    def __init__(  # noqa: PLR0913 - the question, and how it is asked
        self,
        model: Any,
        x: Any,
        target: Any,
        layer: Any = None,
        *,
        free: str = "layer",
        rule: str | None = None,
        batch_size: int | None = None,
        data_format: str | None = None,
        labels: tuple[Any, ...] = (),
    ) -> None:
        require_model(model)
        self.model = model
        self.target = target if labels else explained(target)
        self.layer = layer
        check(batch_size=batch_size)
        self.batch_size = batch_size
        self.ruled = 0
        self._data_format = data_format
        self._y = labels[0] if labels else None
        self._rule = rule
        self._held = x.tensors if isinstance(x, Held) else None
        x = x.x if isinstance(x, Held) else x
        batch = self._engine().ready(model, x, self._y, self.target)
        self.x = batch.unflatten(batch.tensors)["x"]
        self.size = batch.size
        self.tree = walk(model)
        inputs = self._input_tensors()
        follows = free == "floats" and bool(inputs.places) and self._held is None
        at_inputs = self.layer is None or free == "inputs" or follows
        if at_inputs and not inputs.places:
            follows = self.layer is not None
            raise GradwatchError(whole_numbers(self.tree, self.x, follows=follows))
        self._inputs = inputs if at_inputs else None
        self._at = self._inputs if self.layer is None else self._held

    # tensors --------------------------------------------------------------------------

    @property
    def _batch(self) -> dict[str, Tensor]:
        """The tensors of the batch by name; None where one is left out."""
        names = input_names(self.model, self.x)
        return dict(zip(names, keras.tree.flatten(self.x), strict=True))

    def _input_tensors(self) -> Tensors:
        """Returns the inputs that are floating-point numbers; all are sources."""
        given = {n: tensor for n, tensor in self._batch.items() if tensor is not None}
        self.sources = [self._place(name, None, given[name]) for name in given]
        floats = {name: dtype_of(t) for name, t in given.items() if is_float(t)}
        dtypes = {Leaf("input", name): dtype for name, dtype in floats.items()}
        return Tensors(dtypes, [p for p in self.sources if p.name in floats])

    @property
    def at(self) -> Tensors:
        """The tensors of the gradients; known for a layer after a first pass."""
        if self._at is None:
            _ = self.own
        return cast(Tensors, self._at)

    @property
    def free(self) -> Tensors:
        """The tensors whose values points replace."""
        return self.at if self._inputs is None else self._inputs

    @functools.cached_property
    def own(self) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """Scores, gradients and values of the batch as it is: one pass."""
        columns = zip(*(arrays for _, _, arrays in self.passes(1)), strict=True)
        scores, *rest = (np.concatenate([a[0] for a in column]) for column in columns)
        number = len(self.at.places)
        if self.layer is not None:
            self._at = self.at.having(rest[number:])
        return scores, rest[:number], self.at.values

    def moved(self, values: Sequence[np.ndarray]) -> Any:
        """Returns the batch with other numbers at `free`, to be explained so."""
        if self._inputs is None:
            return Held(self.x, self.at.having(values))
        fresh = iter(self._inputs.cast(values))
        return keras.tree.map_structure(
            lambda tensor: next(fresh) if is_float(tensor) else tensor, self.x
        )

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
        ours = [values.shape[1:] for values in self.free.values]
        given = [values.shape[1:] for values in theirs]
        rule = f"{arg('baseline')} must give the shapes that `x` does, {ours} at "
        require(given == ours, f"{rule}{quoted(self.free.names)}.", given)
        return theirs

    def takes(self, x: Any) -> bool:
        """Returns whether something has the shapes of the inputs."""
        shapes = [np.shape(array)[1:] for array in keras.tree.flatten(x)]
        return shapes == [tuple(t.shape)[1:] for t in keras.tree.flatten(self.x)]

    # passes ---------------------------------------------------------------------------

    def passes(
        self,
        count: int,
        point: Point | None = None,
        *,
        differentiate: bool = True,
        at_once: tuple[int, int] | None = None,
    ) -> Iterator[tuple[slice, slice, list[np.ndarray]]]:
        """Runs all examples at each of several points, as many at a time as fit.

        Args:
            count: Number of points.
            point: Returns one of them; None for what the model itself has there. All
                examples of a point are drawn before those of the next.
            differentiate: False runs forward only.
            at_once: Number of examples, and of points of each, that make one pass.

        Yields:
            The points and the examples of a pass; and arrays with an axis for each: the
            scores and, of a backward pass, the gradients and values at each of `at`.
        """
        examples, several = at_once or self.at_once(count)
        for numbers, points in in_parts(count, several):
            for index, part in in_parts(self.size, examples):
                rows = np.tile(index, several)
                tensors = None
                if point is not None:
                    blocks = [point(int(number), index) for number in numbers]
                    arrays = map(np.concatenate, zip(*blocks, strict=True))
                    tensors = self.free.cast(arrays)
                elif self._held is not None:
                    tensors = self._held.cast(v[rows] for v in self._held.values)
                results = map(to_numpy, self._run(rows, tensors, differentiate))
                real = slice(points.stop - points.start), slice(part.stop - part.start)
                shape = (several, examples)
                parts = [a.reshape(*shape, *a.shape[1:])[real] for a in results]
                yield points, part, parts

    def own_scores(self) -> np.ndarray:
        """Runs the batch as it is, forward only."""
        passes = self.passes(1, differentiate=False)
        return np.concatenate([scores[0] for _, _, [scores] in passes])

    def scores_at(
        self, count: int, point: Point, tick: Callable[[float], None] | None = None
    ) -> np.ndarray:
        """Returns the target of each example at each of several points, forward only.

        Args:
            count: Number of points.
            point: Returns one of them.
            tick: Called with the number of points done.

        Returns:
            An array of shape [points, examples].
        """
        scores = np.zeros((count, self.size))
        for points, part, [some] in self.passes(count, point, differentiate=False):
            scores[points, part] = some
            if tick is not None:
                tick(some.size / self.size)
        return scores

    def _run(
        self, rows: np.ndarray, points: Sequence[Tensor] | None, differentiate: bool
    ) -> list[Tensor]:
        """Returns the scores, and what a backward pass gives at each of `at`."""
        own = len(rows) == self.size and bool(np.all(rows == np.arange(self.size)))
        free: dict[str, Tensor] = {}
        given = points or ()
        if given and self._inputs is not None:
            free, given = dict(zip(self._inputs.names, given, strict=True)), ()
        leaves = tuple(self.at.dtypes) if given else ()
        tensors = [
            t if own or t is None or name in free else ops.take(t, rows, axis=0)
            for name, t in (self._batch | free).items()
        ]
        x = keras.tree.pack_sequence_as(self.x, tensors)
        target = self.target if own else self.target.for_rows(rows)
        engine = self._engine(leaves, differentiate=differentiate)
        with renamed(wrt="layer"):
            # Points come in numbers, the batch as it is once.
            loop = points is not None
            captured = engine.run(self.model, x, self._y, target, *given, loop=loop)
        scores = captured.extras.get("scores")
        if scores is None:  # A loss is one number for all examples.
            scores = ops.broadcast_to(captured.value, (len(rows),))
        return [scores, *(self._at_leaves(captured) if differentiate else ())]

    def _engine(
        self, given: tuple[Leaf, ...] = (), *, differentiate: bool = True
    ) -> Engine:
        # Forward only, no tap is needed but those that are given.
        wrt = (selector(self.layer),) if differentiate or given else ()
        each = not isinstance(self.target, Loss)
        options = PassOptions(each, differentiate, self._rule, given)
        return engine_for(self.model, wrt, options)

    def _at_leaves(self, captured: Captured) -> list[Tensor]:
        """Returns the gradients at each of `at`, and what a layer gives there."""
        kind = "input" if self.layer is None else "activation"
        by_leaf = {e.leaf: e for e in captured.entries if e.kind == kind}
        leaves = by_leaf if self._at is None else self._at.dtypes
        entries = [by_leaf[leaf] for leaf in leaves]
        gradients = [self._gradient(entry, entries) for entry in entries]
        self.ruled = captured.facts.ruled
        if self._at is None:
            places = [self._place(e.name, e.leaf.address, e.value) for e in entries]
            self._at = Tensors({e.leaf: e.dtype for e in entries}, places)
        return gradients + [e.value for e in entries if self.layer is not None]

    def _place(self, name: str, address: str | None, tensor: Tensor) -> Place:
        array = to_numpy(tensor)
        # What the caller says of the channels is said of the layer.
        said = None if address is None else self._data_format
        axis = channel_axis(self.tree, address, array.ndim, said)
        return Place(name, array, array, axis)

    def _gradient(self, entry: Entry, entries: Sequence[Entry]) -> Tensor:
        if entry.gradient is not None:
            return dense(entry.gradient)
        reached = any(other.gradient is not None for other in entries)
        cause = entry.reason.cause if entry.reason else ""
        if self.layer is None and reached and cause == "other_output":
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


def explained(target: Any) -> Target:
    """Returns the target of an attribution.

    Raises:
        TargetError: If there is none, or it is not one number per example.
    """
    chosen = as_target(target)
    if chosen.uses_labels:
        raise TargetError(
            f"{arg('target')} must say what is explained: one number per example, to "
            f"be attributed to its own numbers. Received: {target and chosen}. Use "
            "`gradwatch.class_score(i)`, `gradwatch.output(…)`, "
            "`gradwatch.mean_output()` or a function of the outputs."
        )
    return chosen
