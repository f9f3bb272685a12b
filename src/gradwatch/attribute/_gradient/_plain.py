"""The gradient itself, and times what it is of."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...select import at_layer
from .._method import method, result
from .._problem import Problem
from .._result import Attribution
from .._tensors import LAYER


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
    """Size of the gradient: how fast the target changes with each number.

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
        batch_size: Maximum number of examples in a pass. None: all.

    Returns:
        The attribution.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    problem = Problem(model, x, target, layer, batch_size=batch_size)
    scores, gradients, _ = problem.own
    values = [np.abs(g) for g in gradients] if absolute else gradients
    return result(problem, values, scores)


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
        batch_size: Maximum number of examples in a pass.

    Returns:
        The attribution.
    """
    problem = Problem(model, x, target, layer, batch_size=batch_size)
    scores, gradients, values = problem.own
    shares = [g * v for g, v in zip(gradients, values, strict=True)]
    return result(problem, shares, scores)


@method
def layer_gradient_x_activation(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    batch_size: int | None = None,
) -> Attribution:
    """Each number that a layer gives, times its gradient.

    As `input_x_gradient` (Shrikumar et al., 2016, section 2.1), but always at a layer:
    A · ∂S/∂A. One forward and one backward pass.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, name="a"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> score = class_score(1)
    >>> a = attribute.layer_gradient_x_activation(
    ...     model, np.ones((5, 3)), score, layer="a"
    ... )
    >>> a.values.shape
    (5, 4)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to.
        batch_size: Maximum number of examples in a pass.

    Returns:
        The attribution.
    """
    at_layer(layer, LAYER)
    return input_x_gradient(model, x, target, layer=layer, batch_size=batch_size)
