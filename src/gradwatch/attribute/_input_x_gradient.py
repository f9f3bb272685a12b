"""Input × gradient."""

from __future__ import annotations

from typing import Any

from ._method import method, result
from ._problem import Problem
from ._result import Attribution


@method
def input_x_gradient(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    batch_size: int | None = None,
) -> Attribution:
    """Each number times its gradient: its share of a target that is linear in it.

    Shrikumar, Greenside, Shcherbina and Kundaje, *Not Just a Black Box* (2016),
    section 2.1: x · ∂S/∂x. Exact for a linear model without a bias. One forward and
    one backward pass.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> a = gw.input_x_gradient(model, np.ones((5, 3)), gw.class_score(1))
    >>> bool(np.allclose(a.values.sum(axis=1), a.score))
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs.
        batch_size: The most examples that go through the model at a time.

    Returns:
        The attribution.
    """
    problem = Problem(model, x, target, layer, batch_size=batch_size)
    scores, gradients, values = problem.own()
    shares = [g * v for g, v in zip(gradients, values, strict=True)]
    return result(problem, shares, scores)
