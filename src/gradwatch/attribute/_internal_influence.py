"""Internal influence: the mean gradient at a layer, on the way from a baseline."""

from __future__ import annotations

import operator
from typing import Any

from ._baselines import Baseline, baselines, described
from ._checked import require_layer
from ._method import method, result
from ._path import along, whole
from ._path import rule as points_of
from ._problem import Problem
from ._result import Attribution


@method
def internal_influence(  # noqa: PLR0913 - the path, and how it is walked
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    baseline: Baseline = "zeros",
    steps: int = 50,
    rule: str = "gauss_legendre",
    batch_size: int | None = None,
) -> Attribution:
    """How much the target answers to each number of a layer, over a path of inputs.

    Leino, Sen, Datta, Fredrikson and Li, *Influence-Directed Explanations for Deep
    Convolutional Networks* (2018), definition 1, with the inputs on the straight line
    from the baseline: ∫₀¹ ∂F/∂y (x′ + α (x − x′)) dα, y being what the layer gives.
    `steps + 2` forward and backward passes of the batch.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, name="a"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> x = np.ones((5, 3))
    >>> attribute.internal_influence(model, x, class_score(1), layer="a").values.shape
    (5, 4)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to.
        baseline: Where the path of the inputs begins, as in `integrated_gradients`.
        steps: Points on the path.
        rule: `"gauss_legendre"` or `"trapezoid"`.
        batch_size: The most rows that go through the model at a time.

    Returns:
        The attribution.
    """
    require_layer(layer)
    problem = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    alphas, weights = points_of(rule, whole(steps))
    scores, _, _ = problem.own()
    values: list[Any] = []
    starts = baselines(problem, baseline)
    for begin in starts:
        walk = along(problem, (begin, problem.free.values), alphas, weights)
        shares = [total / len(starts) for total in walk.sums]
        values = list(map(operator.add, values, shares)) if values else shares
    settings = {"baseline": described(baseline), "steps": steps, "rule": rule}
    return result(problem, values, scores, settings=settings)
