"""Deconvolution."""

from __future__ import annotations

from typing import Any

from ._method import method
from ._rectified import rectified
from ._result import Attribution


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
        batch_size: The most examples that go through the model at a time.

    Returns:
        The attribution.

    Raises:
        GradwatchError: When the model has no rectifier.
    """
    return rectified("deconvnet", model, x, target, layer, batch_size)
