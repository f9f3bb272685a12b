"""DeepLIFT with the rescale rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...targets import Function
from .._baselines import Baseline, baselines
from .._method import method, result
from .._problem import Problem
from .._result import Attribution


@method
def deep_lift(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    baseline: Baseline = "zeros",
    batch_size: int | None = None,
) -> Attribution:
    """Contribution of each number against a reference, in a single pass.

    Shrikumar, Greenside and Kundaje, *Learning Important Features Through Propagating
    Activation Differences* (2017), eqs. 3, 5 and 10: at each function of one number the
    slope Δy / Δx between the example and its reference takes the place of the
    derivative (the rescale rule), and max-pooling shares the difference among the
    winners. The values of an example add up to F(x) − F(x′), unless something else is
    not linear (products of activations, attention, softmax: explain the logits);
    `.delta` is what is missing. One forward and one backward pass of twice the batch.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> a = attribute.deep_lift(model, np.ones((5, 3)), class_score(1))
    >>> bool(abs(a.delta).max() < 1e-5)
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs.
        baseline: The reference, as in `integrated_gradients`.
        batch_size: Maximum number of rows in a pass; an example takes
            two.

    Returns:
        The attribution.
    """
    # A pass under this rule needs references: what the layer gives comes from a plain
    # pass.
    plain = Problem(model, x, target, layer, batch_size=batch_size)
    own = plain.free.values
    one = plain.target
    # A function sees the examples and their references apart.
    both = replace(one, parts=2) if isinstance(one, Function) else one
    held = plain.moved(own)
    problem = Problem(model, held, both, layer, rule="rescale", batch_size=batch_size)
    examples, _ = plain.at_once(1)
    if batch_size is not None:
        examples = min(examples, max(batch_size // 2, 1))
    starts = baselines(plain, baseline)
    values = [np.zeros_like(array) for array in own]
    scores = np.zeros((2, plain.size), own[0].dtype)

    def point(number: int, rows: np.ndarray) -> list[np.ndarray]:
        return [array[rows] for array in (starts[number // 2] if number % 2 else own)]

    # Each pass has some examples, and then their references.
    passes = problem.passes(2 * len(starts), point, at_once=(examples, 2))
    for points, part, arrays in passes:
        start = starts[points.start // 2]
        scores[:, part] += arrays[0] / len(starts)
        tensors = zip(values, arrays[1:], own, start, strict=False)
        for total, slope, end, begin in tensors:
            total[part] += slope[0] * (end - begin)[part] / len(starts)
    return result(problem, values, scores[0], baseline_score=scores[1])
