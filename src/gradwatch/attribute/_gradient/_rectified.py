"""The gradient under another rule at rectifiers."""

from __future__ import annotations

from typing import Any

from ..._errors import require
from .._method import method, result
from .._problem import Problem
from .._result import Attribution


@method
def guided_backprop(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    batch_size: int | None = None,
) -> Attribution:
    """The gradient, of which each rectifier lets only the positive part through.

    Springenberg, Dosovitskiy, Brox and Riedmiller, *Striving for Simplicity* (2015),
    section 3.4: R = (f > 0) · (R′ > 0) · R′ at each ReLU. Sharp pictures, which say
    more about edges than about the class (Adebayo et al., 2018). One forward and one
    backward pass.

    The rule holds for ReLU, ReLU6, leaky ReLU, ELU, SELU, CELU, GELU and SiLU, in
    whatever model they are nested, as a layer, an `Activation`, an `activation=`
    argument or an operation of `keras.ops`. In others it lets the positive gradient
    through as the function does.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> attribute.guided_backprop(model, np.eye(3), class_score(1)).values.shape
    (3, 3)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs.
        batch_size: Maximum number of examples in a pass.

    Returns:
        The attribution.

    Raises:
        GradwatchError: If the model has no rectifier.
    """
    problem = Problem(model, x, target, layer, rule="guided", batch_size=batch_size)
    return _rectified(problem)


@method
def deconvnet(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    batch_size: int | None = None,
) -> Attribution:
    """The gradient, rectified at each rectifier, whatever that did going forward.

    Zeiler and Fergus, *Visualizing and Understanding Convolutional Networks* (2014),
    section 2.1: R = (R′ > 0) · R′ at each ReLU. As `guided_backprop`, but without
    regard to which units were active. One forward and one backward pass.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> attribute.deconvnet(model, np.eye(3), class_score(1)).values.shape
    (3, 3)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs.
        batch_size: Maximum number of examples in a pass.

    Returns:
        The attribution.

    Raises:
        GradwatchError: If the model has no rectifier.
    """
    problem = Problem(model, x, target, layer, rule="deconvnet", batch_size=batch_size)
    return _rectified(problem)


def _rectified(problem: Problem) -> Attribution:
    scores, gradients, _ = problem.own
    rule = "`model` must have a rectifier (ReLU, leaky ReLU, ELU, GELU, SiLU, …), "
    rule += "whose gradient is changed; Keras met none."
    way_out = "Functions that call the framework itself are not seen: use "
    way_out += "`keras.activations.relu` or `keras.ops.relu`."
    require(problem.ruled > 0, rule, problem.model.name, way_out)
    return result(problem, gradients, scores, settings={"rectifiers": problem.ruled})
