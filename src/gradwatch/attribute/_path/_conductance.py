"""Paths of the inputs, seen at a layer: influence and conductance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._errors import renamed
from ...select import at_layer
from ...targets import neuron as neuron_target
from ...targets import whole_index
from .._baselines import Baseline, baselines
from .._checked import require_one_of
from .._method import method, result
from .._problem import Problem
from .._result import Attribution
from .._tensors import LAYER
from ._walk import Arrays, Path, path_from


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
    at_layer(layer, LAYER)
    problem = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    path = path_from(problem, baselines(problem, baseline), rule, steps)
    score, _, _ = problem.own
    values, _ = path.sums(times_way=False)
    return result(problem, values, score)


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
    at_layer(layer, LAYER)
    require_one_of(rule, "rule", ("trapezoid", "left"))
    problem = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    path = path_from(problem, baselines(problem, baseline), "trapezoid", steps)
    values, scores = _conducted(path, steps, rule)
    before = scores[:: steps + 1].mean(axis=0)
    return result(problem, values, scores[-1], baseline_score=before)


def _conducted(path: Path, steps: int, rule: str) -> tuple[Arrays, np.ndarray]:
    """Adds up gradient times step, from point to point.

    Returns:
        The mean sums of the paths, and the target at each point.
    """
    problem = path.problem
    scores = np.zeros((len(path), problem.size), problem.own[0].dtype)
    shapes = [values.shape for values in problem.at.values]
    totals = [np.zeros(shape) for shape in shapes]
    # Gradients and values at the point before, of all examples.
    last = [np.zeros(shape) for shape in shapes * 2]
    for points, part, arrays in problem.passes(len(path), path.point):
        scores[points, part] = arrays[0]
        for offset, number in enumerate(range(points.start, points.stop)):
            now = [array[offset] for array in arrays[1:]]
            for index, total in enumerate(totals):
                if number % (steps + 1) == 0:  # a path begins
                    continue
                slope, value = last[index][part], last[index + len(totals)][part]
                if rule == "trapezoid":
                    slope = (slope + now[index]) / 2
                total[part] += slope * (now[index + len(totals)] - value)
            for kept, array in zip(last, now, strict=True):
                kept[part] = array
    paths = len(path) // (steps + 1)
    return [(total / paths).astype("float32") for total in totals], scores


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
    at_layer(layer, LAYER)
    above = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    with renamed(index="neuron"):
        index: Any = whole_index(neuron)
        below = Problem(model, x, neuron_target(layer, index), batch_size=batch_size)
        _ = below.own  # the neuron must exist
    score, _, _ = above.own
    path = path_from(below, baselines(below, baseline), rule, steps)
    slopes = np.zeros((len(path), below.size))
    for points, part, arrays in above.passes(len(path), path.point):
        slopes[points, part] = arrays[1][:, :, *index]  # ∂F/∂y
    values, _ = replace(path, weights=path.weights[:, None] * slopes).sums()
    attribution = result(below, values, score, settings={"neuron": str(index)})
    return replace(attribution, target=f"{above.target} through {below.target}")
