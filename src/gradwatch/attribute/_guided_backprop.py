"""Guided backpropagation."""

from __future__ import annotations

from typing import Any

from ._method import method
from ._rectified import rectified
from ._result import Attribution


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
        batch_size: The most examples that go through the model at a time.

    Returns:
        The attribution.

    Raises:
        GradwatchError: When the model has no rectifier.
    """
    return rectified("guided", model, x, target, layer, batch_size)
