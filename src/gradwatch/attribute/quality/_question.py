"""The question of a check: an attribution, its model and its batch."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np

from ..._errors import require
from ..._keras import input_structure
from ...select import require_model
from .._problem import Point, Problem
from .._progress import progress_bar
from .._result import Attribution


def question_of(a: Any, model: Any, x: Any = None) -> tuple[Attribution, Any, Any]:
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
    again: Any = a.again
    rule = "`a` must know how it was made: it is neither loaded from a file nor a part."
    way_out = f"Explain the batch once more with `{a.method}`, and ask about that."
    require(again is not None, rule, a, way_out)
    if x is None:
        x = _inputs(a, model)
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
    a: Attribution, model: Any, x: Any, *, at_inputs: bool = False, **options: Any
) -> Problem:
    """Returns the model with its target, for scores at other values.

    Args:
        a: The attribution.
        model: The model it explains.
        x: The batch.
        at_inputs: True for values of the inputs, wherever the attribution is.
        options: As of `Problem`; `free="floats"` is for a check that explains anew,
            which may be by another model.

    Raises:
        GradwatchError: If the model is another than the explained one.
    """
    arguments = arguments_of(a)
    # The layer of a guided Grad-CAM is that of its map; its values are not.
    inputs = {source.name for source in a.sources}
    at_inputs = at_inputs or all(place.name in inputs for place in a.places)
    layer = None if at_inputs else arguments["layer"]
    problem = Problem(model, x, arguments["target"], layer, **options)
    if options.get("free") == "floats":
        return problem
    now = problem.own_scores().astype("float64")
    apart = np.abs(now - a.score)
    # Half precision, and passes of another size, round in other ways.
    close = not (apart > 0.02 * np.max(np.abs(a.score)) + 1e-6).any()
    worst = int(np.argmax(apart))
    rule = "`model` must be the one that `a` explains, its weights as they were."
    received = f"{now[worst]:.4g} for example {worst}, not {a.score[worst]:.4g}"
    require(close, rule, received, "Explain it first: `a = a.again(model, x)`.")
    return problem


def require_attribution(a: Any) -> None:
    """Raises if something is no attribution."""
    way_out = "Pass what `gradwatch.integrated_gradients(model, x, target)` or another "
    way_out += "method gives, not its `.values`."
    rule = "`a` must be an `Attribution`."
    require(isinstance(a, Attribution), rule, type(a).__name__, way_out)


def require_finite(a: Attribution) -> None:
    """Raises if a value or a score is NaN or infinite, or there is none."""
    require(len(a) > 0, "`a` must hold at least one example.", a)
    arrays = {p.name: p.values for p in a.places} | {"score": a.score}
    for name, array in arrays.items():
        bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        rule = "`a` must hold finite numbers, or nothing can be compared."
        received = {"name": name, "example": int(np.argmax(bad))}
        way_out = "`gradwatch.autopsy(model, x)` finds where NaN or ∞ begin."
        require(not bad.any(), rule, received, way_out)


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
    rule = "`model` must give finite numbers where the check asks it."
    way_out = "A smaller perturbation or another baseline may stay where the model is "
    way_out += "defined."
    require(bool(np.isfinite(scores).all()), rule, "NaN or ∞ away from `x`", way_out)
    return scores
