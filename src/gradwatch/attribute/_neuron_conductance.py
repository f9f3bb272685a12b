"""Conductance through one neuron."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from .._errors import GradwatchError, told_as
from ..targets import neuron as neuron_target
from ..targets import whole_index
from ._baselines import Baseline, baselines, described
from ._checked import require_layer
from ._method import method, result
from ._path import passes, times, weighted, whole
from ._path import rule as points_of
from ._problem import Problem
from ._result import Attribution
from ._rows import in_parts
from ._spots import host


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
    """What each input adds to the target through one neuron.

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
        neuron: The place in what the layer gives, without the batch axis.
        baseline: Where the path begins, as in `integrated_gradients`.
        steps: Points on the path.
        rule: `"gauss_legendre"` or `"trapezoid"`.
        batch_size: The most rows that go through the model at a time.

    Returns:
        The attribution, to the inputs.
    """
    if neuron is None:
        raise GradwatchError(
            "`neuron` must be a place in what the layer gives, without the batch axis. "
            "Received: None. For all of them at once use `layer_conductance`."
        )
    require_layer(layer)
    above = Problem(model, x, target, layer, free="inputs", batch_size=batch_size)
    with told_as("neuron", "index"):
        index = whole_index(neuron)
        through = neuron_target(layer, index)
        below = Problem(model, x, through, batch_size=batch_size)
        below.own()
    score, _, _ = above.own()
    alphas, weights = points_of(rule, whole(steps))
    examples, count = below.at_once(len(alphas))
    starts = baselines(below, baseline)
    values: list[Any] = []
    for begin in starts:
        ends = (begin, below.free.values)
        parts = []
        for some in in_parts(below.size, examples):
            both = zip(
                passes(below, some, ends, alphas, count),
                passes(above, some, ends, alphas, count),
                strict=True,
            )
            totals: list[Any] = []
            for (part, inner), (_, outer) in both:
                share = weights[part.index] * (np.arange(count) < part.real)
                where: Any = (slice(None), *index)
                slope = host(outer.gradients[0])[where]
                sums = [weighted(share, times(g, slope)) for g in inner.gradients]
                totals = list(map(operator.add, totals, sums)) if totals else sums
            parts.append([host(total)[: some.real] for total in totals])
        sums = [np.concatenate(column) for column in zip(*parts, strict=True)]
        shares = [
            total * (stop - b) / len(starts)
            for total, stop, b in zip(sums, below.free.values, begin, strict=True)
        ]
        values = list(map(operator.add, values, shares)) if values else shares
    settings = {
        "baseline": described(baseline),
        "steps": steps,
        "rule": rule,
        "neuron": str(index),
    }
    found = result(below, values, score, settings=settings)
    return replace(found, target=f"{above.target} through {below.target}")
