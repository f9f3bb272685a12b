"""What all checks begin with: an attribution, its model and its batch, made sure of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ..._errors import GradwatchError, quoted
from ..._keras import input_structure
from ...select import require_model
from .._method import Again
from .._problem import Problem
from .._result import Attribution
from .._rows import in_parts
from .._tensors import to_numpy

Point = Callable[[int, np.ndarray], Sequence[np.ndarray]]
"""From a number and the examples wanted to an array for each place."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An attribution of a batch, and the model that it explains."""

    a: Attribution
    again: Again
    model: Any
    x: Any

    def problem(self, batch_size: int | None, *, at_inputs: bool = False) -> Problem:
        """Returns the model with its target, to be asked for scores of other numbers.

        Args:
            batch_size: The most rows of a pass.
            at_inputs: Whether the numbers are those of the inputs, wherever the
                attribution is.

        Raises:
            GradwatchError: If the model is another than the explained one.
        """
        words = self.again.arguments
        # The layer of a guided Grad-CAM is that of its map; its values are not.
        inputs = {source.name for source in self.a.sources}
        at_inputs = at_inputs or all(p.name in inputs for p in self.a.places)
        layer = None if at_inputs else words["layer"]
        found = Problem(
            self.model, self.x, words["target"], layer, batch_size=batch_size
        )
        self._require_same_model(found)
        if not found.at_inputs:
            found.own()  # what the layer gives is known after a pass
        return found

    def _require_same_model(self, problem: Problem) -> None:
        own = [
            to_numpy(problem.scores(some.index))[: some.real]
            for some in in_parts(problem.size, problem.at_once(1)[0])
        ]
        now = np.concatenate(own).astype("float64")
        apart = np.abs(now - self.a.score)
        # Half precision, and passes of another size, round in other ways.
        if (apart > 0.02 * np.max(np.abs(self.a.score)) + 1e-6).any():
            worst = int(np.argmax(apart))
            raise GradwatchError(
                "`model` must be the one that `a` explains, its weights as they were. "
                f"Received: one that gives {now[worst]:.4g} to example {worst}, not "
                f"{self.a.score[worst]:.4g}. Explain it first: "
                "`a = a.again(model, x)`."
            )


def asked(a: Attribution, model: Any, x: Any = None) -> Asked:
    """Makes sure that an attribution can be asked about.

    Args:
        a: The attribution.
        model: The model it explains.
        x: Another batch, which is explained first in the same way. None: its own.

    Raises:
        GradwatchError: If it cannot.
    """
    require_attribution(a)
    require_model(model)
    if a.again is None:
        raise GradwatchError(
            "`a` must know how it was made. Received: one that was loaded from a file, "
            f"or a part of one. Explain the batch once more with `{a.method}`, and ask "
            "about what that gives."
        )
    again = a.again if isinstance(a.again, Again) else Again(a.again, {})
    if x is None:
        batch = _inputs(a, model)
        _require_fit(model, batch)
        require_finite(a)
        return Asked(a, again, model, batch)
    found = again(model, x)
    require_finite(found)
    if any(isinstance(leaf, int | float) for leaf in keras.tree.flatten(x)):
        x = _inputs(found, model)  # plain lists of numbers: as the arrays they mean
    return Asked(found, again, model, x)


def require_attribution(a: Any) -> None:
    """Raises when something is no attribution."""
    if not isinstance(a, Attribution):
        raise GradwatchError(
            f"`a` must be an `Attribution`. Received: {type(a).__name__}. Pass what "
            "`gradwatch.integrated_gradients(model, x, target)` or another method "
            "gives, not its `.values`."
        )


def require_finite(a: Attribution) -> None:
    """Raises when a value or a score is NaN or infinite, or there is none."""
    if not len(a):
        raise GradwatchError("`a` must hold at least one example. Received: none.")
    arrays = {p.name: p.values for p in a.places} | {"score": a.score}
    for name, array in arrays.items():
        bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        if bad.any():
            raise GradwatchError(
                "`a` must hold finite numbers, or nothing can be compared. Received: "
                f"NaN or ∞ in {name!r} of example {int(np.argmax(bad))}. "
                "`gradwatch.autopsy(model, x)` finds where they begin."
            )


def _inputs(a: Attribution, model: Any) -> Any:
    """Puts the inputs that an attribution keeps back into the model's structure."""
    arrays = [source.values for source in a.sources]
    names = [s.name.removeprefix("inputs[").removesuffix("]") for s in a.sources]
    if [s.name for s in a.sources] == ["inputs"]:
        return arrays[0]
    structure = input_structure(model)
    by_position = names == [str(number) for number in range(len(names))]
    if by_position or isinstance(structure, list | tuple):
        return arrays
    return dict(zip(names, arrays, strict=True))


def _require_fit(model: Any, batch: Any) -> None:
    expected = getattr(model, "inputs", None)
    if not isinstance(expected, list):
        return
    shapes = [tuple(np.shape(array))[1:] for array in keras.tree.flatten(batch)]
    wanted = [tuple(spec.shape)[1:] for spec in expected]
    fits = len(shapes) == len(wanted) and all(
        len(s) == len(w) and all(n in (None, m) for m, n in zip(s, w, strict=True))
        for s, w in zip(shapes, wanted, strict=False)
    )
    if not fits:
        raise GradwatchError(
            "`model` must be the one that `a` explains. Received: one whose inputs "
            f"have shapes {quoted(map(str, wanted))}; those of `a` are "
            f"{quoted(map(str, shapes))}."
        )


def scores_at(
    problem: Problem, count: int, point: Point, tick: Callable[[float], None]
) -> np.ndarray:
    """Returns the target at each of several points: [points, examples].

    Args:
        problem: The model and its target.
        count: How many points.
        point: Gives them. All examples of a point are asked for before the next.
        tick: Is told how many points are done.
    """
    examples, several = problem.at_once(count)
    scores = np.zeros((count, problem.size))
    for part in in_parts(count, several):
        for some in in_parts(problem.size, examples):
            rows = np.tile(some.index, several)
            blocks = [point(int(number), some.index) for number in part.index]
            points = [np.concatenate(column) for column in zip(*blocks, strict=True)]
            tensors = problem.free.tensors(np.arange(len(rows)), points)
            found = to_numpy(problem.scores(rows, tensors)).reshape(several, -1)
            where = np.ix_(part.index[: part.real], some.index[: some.real])
            scores[where] = found[: part.real, : some.real]
            tick(part.real * some.real / problem.size)
    if not np.isfinite(scores).all():
        raise GradwatchError(
            "`model` must give finite numbers where the check asks it. Received: NaN "
            "or ∞ away from `x`. A smaller perturbation or another baseline may stay "
            "where the model is defined."
        )
    return scores
