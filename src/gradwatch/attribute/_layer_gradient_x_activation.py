"""Gradient × activation, at a layer."""

from __future__ import annotations

from typing import Any

from ._checked import require_layer
from ._input_x_gradient import input_x_gradient
from ._method import method
from ._result import Attribution


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
        batch_size: The most examples that go through the model at a time.

    Returns:
        The attribution.
    """
    require_layer(layer)
    return input_x_gradient(model, x, target, layer=layer, batch_size=batch_size)
