"""What all methods share: a result knows how it was made, and can be made again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from ._problem import Problem
from ._result import Attribution

Method = TypeVar("Method", bound=Callable[..., Attribution])


@dataclass(frozen=True, slots=True, eq=False)
class Again:
    """How a result was made: explains another batch, or model, in the same way."""

    method: Callable[..., Attribution]
    arguments: Mapping[str, Any]
    """All but the model and the batch, those that nobody gave as well."""

    def __call__(self, model: Any, x: Any) -> Attribution:
        """Returns the attribution of another batch or model."""
        return self.method(model, x, **self.arguments)


def method(function: Method) -> Method:
    """Notes on each result which function made it, and with which arguments."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def named(model: Any, x: Any, *target: Any, **options: Any) -> Attribution:
        found = function(model, x, *target, **options)
        bound = signature.bind(model, x, *target, **options)
        bound.apply_defaults()
        arguments = {**bound.arguments, **bound.arguments.get("options", {})}
        for name in ("model", "x", "options"):
            arguments.pop(name, None)
        again = Again(named, arguments)
        return replace(found, method=function.__name__, again=again)

    return cast(Method, named)


def result(
    problem: Problem,
    values: Sequence[np.ndarray],
    score: np.ndarray,
    *,
    baseline_score: np.ndarray | None = None,
    settings: Mapping[str, Any] | None = None,
    data_format: str | None = None,
) -> Attribution:
    """Makes the noun; completeness is checked where there is a baseline's score."""
    delta = None
    if baseline_score is not None:
        sums = [v.reshape(len(v), -1).sum(axis=1, dtype="float64") for v in values]
        delta = sum(sums) - (score.astype("float64") - baseline_score)
    return Attribution(
        problem.places(values, data_format),
        problem.sources(),
        "",
        str(problem.target),
        score,
        layer=None if problem.at_inputs else ", ".join(problem.at.names),
        delta=delta,
        baseline_score=baseline_score,
        settings=dict(settings or {}),
    )
