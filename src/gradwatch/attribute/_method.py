"""The result of a method, which knows how it was made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from .._errors import require
from ._baselines import described
from ._problem import Problem
from ._result import Attribution

Method = TypeVar("Method", bound=Callable[..., Attribution])

SETTINGS = ("absolute", "baseline", "relu", "rule", "samples", "seed", "steps")
"""Arguments that are kept among the settings, unless a method gives its own."""


def method(function: Method) -> Method:
    """Records on each result which function made it, and with which arguments.

    Those that are named in `SETTINGS` are among its settings.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def named(model: Any, x: Any, *target: Any, **options: Any) -> Attribution:
        attribution = function(model, x, *target, **options)
        bound = signature.bind(model, x, *target, **options)
        bound.apply_defaults()
        settings = {n: v for n, v in bound.arguments.items() if n in SETTINGS}
        if "baseline" in settings:
            settings["baseline"] = described(settings["baseline"])
        settings |= attribution.settings
        every = {**bound.arguments, **bound.arguments.get("options", {})}
        rest = {n: v for n, v in every.items() if n not in ("model", "x", "options")}
        again = functools.partial(named, **rest)
        made: Any = {"method": function.__name__, "again": again, "settings": settings}
        return replace(attribution, **made)

    return cast(Method, named)


def result(
    problem: Problem, values: Sequence[np.ndarray], score: np.ndarray, **more: Any
) -> Attribution:
    """Returns the attribution, with its delta where there is a baseline's score.

    Args:
        problem: The question.
        values: What is attributed to each tensor.
        score: The target of each example.
        more: The `settings` and the `baseline_score`, if there are any.
    """
    if "baseline_score" in more:
        more["delta"] = delta_of(values, score, more["baseline_score"])
    places = []
    for own, array in zip(problem.at.places, values, strict=True):
        channels = own.channels if array.ndim == own.values.ndim else None
        places.append(replace(own, values=array, channels=channels))
    return Attribution(
        tuple(places),
        tuple(problem.sources),
        "",
        str(problem.target),
        score,
        layer=None if problem.layer is None else ", ".join(problem.at.names),
        **more,
    )


def delta_of(
    values: Sequence[np.ndarray], score: np.ndarray, baseline_score: np.ndarray
) -> np.ndarray:
    """Returns how far the values of each example are from adding up."""
    sums = [v.reshape(len(v), -1).sum(axis=1, dtype="float64") for v in values]
    return np.asarray(sum(sums) - (score.astype("float64") - baseline_score))


def relative_delta(
    values: Sequence[np.ndarray], score: np.ndarray, baseline_score: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the difference of the scores, and |delta| as a share of it."""
    difference = score.astype("float64") - baseline_score
    # Below what float32 can tell apart there is nothing to compare with.
    least = 1e-6 * (np.abs(score) + np.abs(baseline_score)) + 1e-30
    delta = np.abs(delta_of(values, score, baseline_score))
    return difference, delta / np.maximum(np.abs(difference), least)


def require_method(method: Any) -> None:
    """Raises if something is no function that could explain a model."""
    rule = "`method` must be a function such as `gradwatch.integrated_gradients`."
    require(callable(method), rule, method)


def made_by(
    method: Callable[..., Attribution], model: Any, x: Any, target: Any, **options: Any
) -> Attribution:
    """Returns what a method makes of a batch.

    Raises:
        GradwatchError: If that is no attribution.
    """
    made = method(model, x, target, **options)
    received = getattr(method, "__name__", method), type(made).__name__
    rule = "`method` must give an `Attribution`."
    require(isinstance(made, Attribution), rule, received)
    return made
