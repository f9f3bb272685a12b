"""Paths of the inputs, seen at a layer: influence and conductance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._errors import GradwatchError, renamed
from ...targets import neuron as neuron_target
from ...targets import whole_index
from .._baselines import Baseline, baselines, described
from .._checked import require_count, require_layer
from .._method import method, result
from .._problem import Problem
from .._result import Attribution
from .._rows import RowRange
from .._tensors import to_numpy
from ._walk import (
    Ends,
    Walk,
    Walked,
    added,
    mean_over_paths,
    points_between,
    weighted_gradients,
)
from ._walk import rule as points_of

STEP_RULES = ("trapezoid", "left")


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
    """Mean gradient at each number of a layer, over a path of inputs.

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
        batch_size: Maximum number of rows in a pass.

    Returns:
        The attribution.
    """
    require_layer(layer)
    require_count(steps, "steps")
    problem = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    alphas, weights = points_of(rule, steps)
    score, _, _ = problem.own()
    values, _, _ = mean_over_paths(
        problem,
        baselines(problem, baseline),
        weighted_gradients(problem, alphas, weights),
        problem.at_once(len(alphas)),
        times_length=False,
    )
    settings = {"baseline": described(baseline), "steps": steps, "rule": rule}
    return result(problem, values, score, settings=settings)


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
    """Share of the target that flows through each number of a layer.

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
        batch_size: Maximum number of rows in a pass.

    Returns:
        The attribution.
    """
    require_layer(layer)
    require_count(steps, "steps")
    if rule not in STEP_RULES:
        raise GradwatchError(f"`rule` must be one of {STEP_RULES}. Received: {rule!r}.")
    problem = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    problem.own()
    alphas = np.linspace(0, 1, steps + 1)
    values, score, before = mean_over_paths(
        problem,
        baselines(problem, baseline),
        _conducted(problem, alphas, rule),
        problem.at_once(len(alphas)),
        times_length=False,
    )
    settings = {"baseline": described(baseline), "steps": steps, "rule": rule}
    values = [v.astype("float32") for v in values]
    return result(problem, values, score, baseline_score=before, settings=settings)


def _conducted(problem: Problem, alphas: np.ndarray, rule: str) -> Walk:
    """Returns a walk that adds up gradient times step, from point to point."""

    def walk(part: RowRange, ends: Ends, count: int) -> Walked:
        totals: list[Any] = []
        scores, last = [], None
        for some, rows, points in points_between(problem, part, ends, alphas, count):
            passed = problem.gradients(rows, points)
            arrays = [to_numpy(t) for t in (*passed.gradients, *passed.values)]
            seen = [a.reshape(count, -1, *a.shape[1:])[: some.real] for a in arrays]
            scores.append(to_numpy(passed.scores).reshape(count, -1)[: some.real])
            # The first step of a pass begins at the last point of the one before.
            joined = [np.concatenate(p) for p in zip(last or seen, seen, strict=True)]
            if last is None:
                joined = seen
            half = len(joined) // 2
            steps = []
            for gradients, values in zip(joined[:half], joined[half:], strict=True):
                here = gradients[:-1]
                if rule == "trapezoid":
                    here = (here + gradients[1:]) / 2
                flow = here * np.diff(values, axis=0)
                steps.append(flow.sum(axis=0, dtype="float64"))
            totals = added(totals, steps)
            last = [a[-1:] for a in seen]
        return np.concatenate(scores), totals

    return walk


@method
def neuron_conductance(  # noqa: PLR0913 - the path, and how it is walked
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    neuron: Any = None,
    baseline: Baseline = "zeros",
    steps: int = 50,
    rule: str = "gauss_legendre",
    batch_size: int | None = None,
) -> Attribution:
    """Contribution of each input to the target through one neuron.

    Dhamdhere, Sundararajan and Yan, *How Important Is a Neuron?* (2019), eq. 2, before
    the sum over the inputs: (x − x′) · ∫₀¹ ∂F/∂y · ∂y/∂x dα on the straight line from
    the baseline. The values of an example add up to the neuron's conductance. Twice
    `steps + 2` forward and backward passes of the batch.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, name="a"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> x = np.ones((5, 3))
    >>> a = attribute.neuron_conductance(model, x, class_score(1), layer="a", neuron=2)
    >>> a.values.shape
    (5, 3)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer of the neuron.
        neuron: The index into what the layer gives, without the batch axis.
        baseline: Where the path begins, as in `integrated_gradients`.
        steps: Points on the path.
        rule: `"gauss_legendre"` or `"trapezoid"`.
        batch_size: Maximum number of rows in a pass.

    Returns:
        The attribution, to the inputs.
    """
    if neuron is None:
        raise GradwatchError(
            "`neuron` must be an index into what the layer gives, without the batch "
            "axis. Received: None. For all of them at once use `layer_conductance`."
        )
    require_layer(layer)
    require_count(steps, "steps")
    above = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    with renamed(index="neuron"):
        index: Any = whole_index(neuron)
        below = Problem(model, x, neuron_target(layer, index), batch_size=batch_size)
        below.own()
    score, _, _ = above.own()

    def slopes(rows: np.ndarray, points: list[Any]) -> np.ndarray:
        """Returns ∂F/∂y for each row."""
        return to_numpy(above.gradients(rows, points).gradients[0])[:, *index]

    alphas, weights = points_of(rule, steps)
    values, _, _ = mean_over_paths(
        below,
        baselines(below, baseline),
        weighted_gradients(below, alphas, weights, slopes),
        below.at_once(len(alphas)),
    )
    settings = {"baseline": described(baseline), "steps": steps, "rule": rule}
    settings["neuron"] = str(index)
    attribution = result(below, values, score, settings=settings)
    return replace(attribution, target=f"{above.target} through {below.target}")
