"""Conductance: what flows through each number of a layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import GradwatchError
from ._baselines import Baseline, baselines, described
from ._checked import require_layer
from ._method import method, result
from ._path import Arrays, passes, whole
from ._problem import Problem
from ._result import Attribution
from ._rows import Some, in_parts
from ._spots import host

RULES = ("trapezoid", "left")


@method
def layer_conductance(  # noqa: PLR0913 - the path, and how it is walked
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    baseline: Baseline = "zeros",
    steps: int = 50,
    rule: str = "trapezoid",
    batch_size: int | None = None,
) -> Attribution:
    """How much of the target flows through each number of a layer.

    Dhamdhere, Sundararajan and Yan, *How Important Is a Neuron?* (2019), eq. 3, as
    Shrikumar, Su and Kundaje (2018) compute it: Σ ∂F/∂y · Δy along the straight line
    from the baseline to the input, y being what the layer gives. The values of an
    example add up to F(x) − F(x′), if all that the target depends on goes through the
    layer; `.delta` is what is missing. `steps + 1` forward and backward passes of the
    batch.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, name="a"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> x = np.ones((5, 3))
    >>> a = attribute.layer_conductance(model, x, class_score(1), layer="a")
    >>> a.values.shape, bool(abs(a.delta).max() < 1e-5)
    ((5, 4), True)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to.
        baseline: Where the path of the inputs begins, as in `integrated_gradients`.
        steps: Steps of equal length on the path.
        rule: The gradient of a step: `"trapezoid"` for the mean of its ends, `"left"`
            for that of its beginning.
        batch_size: The most rows that go through the model at a time.

    Returns:
        The attribution.
    """
    require_layer(layer)
    if rule not in RULES:
        raise GradwatchError(f"`rule` must be one of {RULES}. Received: {rule!r}.")
    problem = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    problem.own()
    alphas = np.linspace(0, 1, whole(steps) + 1)
    examples, count = problem.at_once(len(alphas))
    starts = baselines(problem, baseline)
    values: list[Any] = []
    score, start = np.zeros(problem.size), np.zeros(problem.size)
    for begin in starts:
        ends = (begin, problem.free.values)
        parts = []
        for some in in_parts(problem.size, examples):
            flow = _Flow(rule)
            for part, found in passes(problem, some, ends, alphas, count):
                flow.add(part, found, count)
            chosen = some.index[: some.real]
            score[chosen] = flow.scores[-1][: some.real]
            start[chosen] += flow.scores[0][: some.real] / len(starts)
            parts.append([total[: some.real] / len(starts) for total in flow.totals])
        shares = [np.concatenate(column) for column in zip(*parts, strict=True)]
        values = (
            [v + s for v, s in zip(values, shares, strict=True)] if values else shares
        )
    settings = {"baseline": described(baseline), "steps": steps, "rule": rule}
    values = [v.astype("float32") for v in values]
    return result(problem, values, score, baseline_score=start, settings=settings)


class _Flow:
    """Adds up gradient times step, from point to point."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.totals: Arrays = []
        self.scores: Arrays = []
        self._last: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, part: Some, found: Any, count: int) -> None:
        """Takes the next points of all examples."""

        def by_point(tensor: Any) -> np.ndarray:
            array = host(tensor)
            return array.reshape(count, -1, *array.shape[1:])[: part.real]

        self.scores += list(by_point(found.scores))
        pairs = [
            (by_point(g), by_point(v))
            for g, v in zip(found.gradients, found.values, strict=True)
        ]
        if not self.totals:
            self.totals = [np.zeros(v.shape[1:], "float64") for _, v in pairs]
        last = self._last or [(g[:0], v[:0]) for g, v in pairs]
        for total, (g, v), (g0, v0) in zip(self.totals, pairs, last, strict=True):
            gradients, values = np.concatenate([g0, g]), np.concatenate([v0, v])
            here = gradients[:-1]
            if self.rule == "trapezoid":
                here = (here + gradients[1:]) / 2
            total += (here * np.diff(values, axis=0)).sum(axis=0, dtype="float64")
        self._last = [(g[-1:], v[-1:]) for g, v in pairs]
