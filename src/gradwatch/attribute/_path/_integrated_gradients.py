"""Integrated gradients, of the inputs or of a layer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..._errors import arg, require
from .._baselines import Baseline, baselines
from .._checked import check, is_count
from .._method import method, relative_delta, result
from .._problem import Problem
from .._result import Attribution
from ._walk import path_from

FIRST, MOST = 16, 1024
"""Number of points that `steps="auto"` begins with, and the maximum."""


@method
def integrated_gradients(  # noqa: PLR0913 - the path, and how it is walked
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    baseline: Baseline = "zeros",
    steps: int | str = 50,
    rule: str = "gauss_legendre",
    tolerance: float = 1e-3,
    batch_size: int | None = None,
) -> Attribution:
    """Contribution of each number to the target, on the way from a baseline.

    Sundararajan, Taly and Yan, *Axiomatic Attribution for Deep Networks* (2017),
    eq. 1: (x − x′) · ∫₀¹ ∂F/∂x (x′ + α (x − x′)) dα. The values of an example add up
    to F(x) − F(x′); `.delta` is what is missing. `steps + 2` forward and backward
    passes of the batch.

    With `layer=` the path runs from the baseline to what the layer gives for `x`, and
    the model runs on from there, its other inputs as they are.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> a = gw.integrated_gradients(model, np.ones((5, 3)), gw.class_score(1))
    >>> bool(np.allclose(a.values.sum(axis=1), a.score - a.baseline_score, atol=1e-4))
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to, such as the embedding of a
            text model; None: the inputs.
        baseline: Where the path begins: `"zeros"`, `"mean"` (each example's own, per
            channel), `"blur"`, a number, an array, a function of the values,
            `attribute.blurred(sigma)`; a list or dict of these for several inputs, as
            `x` is; or `attribute.sampled(data)`. With `layer=` it is of the layer's
            shape, or an input of the model, for which the layer's output is taken.
        steps: Points on the path; or `"auto"`: twice as many until the values add up
            within `tolerance`. `.settings` says what was used.
        rule: `"gauss_legendre"` or `"trapezoid"`.
        tolerance: For `"auto"`: the largest |delta| / |F(x) − F(x′)|.
        batch_size: Maximum number of rows in a pass, whatever the
            number of steps.

    Returns:
        The attribution.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    problem = Problem(model, x, target, layer, batch_size=batch_size)
    starts = baselines(problem, baseline)
    automatic = isinstance(steps, str) and steps == "auto"
    rule_of_steps = f"{arg('steps')} must be a whole number from 1, or 'auto'."
    require(automatic or is_count(steps), rule_of_steps, steps)
    number = FIRST if automatic else int(steps)
    check(tolerance=tolerance)
    path = path_from(problem, starts, rule, number)
    examples, count = problem.at_once(len(path))
    if automatic:
        # Each doubling keeps the shape of a pass, so that nothing is compiled again.
        count = 1 << (count.bit_length() - 1)
    while True:
        values, scores = path.sums(at_once=(examples, count))
        score, before = scores[-1], scores[path.alphas == 0].mean(axis=0)
        settings: dict[str, Any] = {"steps": number}
        if not automatic:
            break
        error = float(relative_delta(values, score, before)[1].max())
        settings |= {"error": error, "reached": error <= tolerance}
        # What is NaN or infinite once stays so, however many steps there are.
        if error <= tolerance or number >= MOST or not np.isfinite(error):
            break
        number *= 2
        path = path_from(problem, starts, rule, number)
    if not settings.get("reached", True):
        warnings.warn(
            f"integrated_gradients: after {number} steps the values are "
            f"{error:.2g} of the difference away from adding up to it, not "
            f"{tolerance:g} as asked. The model may jump on the path, or the "
            "difference be too small for its numbers.",
            stacklevel=3,
        )
    return result(problem, values, score, baseline_score=before, settings=settings)
