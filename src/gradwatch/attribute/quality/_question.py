"""The question of a check: an attribution, its model and its batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from ..._errors import GradwatchError, quoted
from ..._keras import input_structure
from ...select import require_model
from .._problem import Point, Problem
from .._progress import progress_bar
from .._result import Attribution

Recipe = Callable[[Any, Any], Attribution]
"""Explains a batch by a model in the way an attribution was made: `again(model, x)`."""


def question_of(a: Any, model: Any, x: Any = None) -> tuple[Attribution, Recipe, Any]:
    """Returns what is asked about, once it is sure that it can be asked.

    Args:
        a: The attribution.
        model: The model it explains.
        x: Another batch, which is explained first in the same way. None: its own.

    Returns:
        The attribution of the batch, how it was made, and the batch.

    Raises:
        GradwatchError: If it cannot.
    """
    require_attribution(a)
    require_model(model)
    again = a.again
    if again is None:
        raise GradwatchError(
            "`a` must know how it was made. Received: one that was loaded from a file, "
            f"or a part of one. Explain the batch once more with `{a.method}`, and ask "
            "about what that gives."
        )
    if x is None:
        x = _inputs(a, model)
        _require_fit(model, x)
    else:
        a = again(model, x)
        if any(isinstance(leaf, int | float) for leaf in keras.tree.flatten(x)):
            x = _inputs(a, model)  # plain lists of numbers: as the arrays they mean
    require_finite(a)
    return a, again, x


def arguments_of(a: Attribution) -> dict[str, Any]:
    """Returns all arguments of the method but the model and the batch."""
    return a.again.keywords if isinstance(a.again, functools.partial) else {}


def problem_of(
    a: Attribution,
    model: Any,
    x: Any,
    batch_size: int | None = None,
    *,
    at_inputs: bool = False,
    free: str = "layer",
) -> Problem:
    """Returns the model with its target, for scores at other values.

    Args:
        a: The attribution.
        model: The model it explains.
        x: The batch.
        batch_size: Maximum number of rows of a pass.
        at_inputs: True for values of the inputs, wherever the attribution is.
        free: As in `Problem`; `"floats"` for a check that explains anew, which may be
            by another model.

    Raises:
        GradwatchError: If the model is another than the explained one.
    """
    arguments = arguments_of(a)
    # The layer of a guided Grad-CAM is that of its map; its values are not.
    inputs = {source.name for source in a.sources}
    at_inputs = at_inputs or all(place.name in inputs for place in a.places)
    layer = None if at_inputs else arguments["layer"]
    target = arguments["target"]
    problem = Problem(model, x, target, layer, free=free, batch_size=batch_size)
    if free == "floats":
        return problem
    now = problem.own_scores().astype("float64")
    apart = np.abs(now - a.score)
    # Half precision, and passes of another size, round in other ways.
    if (apart > 0.02 * np.max(np.abs(a.score)) + 1e-6).any():
        worst = int(np.argmax(apart))
        raise GradwatchError(
            "`model` must be the one that `a` explains, its weights as they were. "
            f"Received: one that gives {now[worst]:.4g} to example {worst}, not "
            f"{a.score[worst]:.4g}. Explain it first: `a = a.again(model, x)`."
        )
    return problem


def require_attribution(a: Any) -> None:
    """Raises if something is no attribution."""
    if not isinstance(a, Attribution):
        raise GradwatchError(
            f"`a` must be an `Attribution`. Received: {type(a).__name__}. Pass what "
            "`gradwatch.integrated_gradients(model, x, target)` or another method "
            "gives, not its `.values`."
        )


def require_finite(a: Attribution) -> None:
    """Raises if a value or a score is NaN or infinite, or there is none."""
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


def flat_values(a: Attribution) -> np.ndarray:
    """Returns all values of each example in a row."""
    parts = [place.values.reshape(len(a), -1) for place in a.places]
    return np.concatenate(parts, axis=1).astype("float64")


def _inputs(a: Attribution, model: Any) -> Any:
    """Puts the inputs that an attribution keeps back into the model's structure."""
    if [source.name for source in a.sources] == ["inputs"]:
        return a.inputs
    arrays = {s.name.removeprefix("inputs[").removesuffix("]"): s for s in a.sources}
    by_position = [*arrays] == [str(number) for number in range(len(arrays))]
    if by_position or isinstance(input_structure(model), list | tuple):
        return [source.values for source in a.sources]
    return {name: source.values for name, source in arrays.items()}


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


def finite_scores(
    problem: Problem, count: int, point: Point, check: str, progress: bool | None
) -> np.ndarray:
    """Returns the target at each of several points: [points, examples].

    Args:
        problem: The model with its target.
        count: Number of points.
        point: Returns the inputs of some examples at a point.
        check: The text before the progress bar.
        progress: As in `sensitivity_max`.

    Raises:
        GradwatchError: If one is NaN or infinite.
    """
    with progress_bar(check, count, progress) as tick:
        scores = problem.scores_at(count, point, tick)
    if not np.isfinite(scores).all():
        raise GradwatchError(
            "`model` must give finite numbers where the check asks it. Received: NaN "
            "or ∞ away from `x`. A smaller perturbation or another baseline may stay "
            "where the model is defined."
        )
    return scores
