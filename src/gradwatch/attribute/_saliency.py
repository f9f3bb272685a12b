"""Saliency: the gradient itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._method import method, result
from ._problem import Problem
from ._result import Attribution


@method
def saliency(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    absolute: bool = True,
    batch_size: int | None = None,
) -> Attribution:
    """How fast the target changes with each number: the size of its gradient.

    Simonyan, Vedaldi and Zisserman, *Deep Inside Convolutional Networks* (2014), eq. 3
    and section 3.1: |∂S/∂x|. One forward and one backward pass.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> a = gw.saliency(model, np.ones((5, 3)), gw.class_score(1))
    >>> a.values.shape, bool((a.values >= 0).all())
    ((5, 3), True)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs, as the model takes them.
        target: What is explained: `class_score(i)`, `output(…)`, `mean_output()`, or a
            function of the outputs that gives one number per example.
        layer: The layer whose output is attributed to: an address, or anything that
            `activations` takes, also `activations(…, at="input")` itself. None: the
            inputs of the model; those that are whole numbers are left alone.
        absolute: False keeps the sign.
        batch_size: The most examples that go through the model at a time. None: all.

    Returns:
        The attribution.

    Raises:
        GradwatchError: When an argument cannot be used; the message says why.
    """
    problem = Problem(model, x, target, layer, batch_size=batch_size)
    scores, gradients, _ = problem.own()
    values = [np.abs(g) for g in gradients] if absolute else gradients
    return result(problem, values, scores, settings={"absolute": absolute})
