"""Grad-CAM."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._cam import cam_problem, mapped
from ._method import method
from ._result import Attribution


@method
def grad_cam(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    relu: bool = True,
    data_format: str | None = None,
    batch_size: int | None = None,
) -> Attribution:
    """A map of where a layer saw what speaks for the target.

    Selvaraju et al., *Grad-CAM* (2017), eqs. 1 and 2: the channels A of the layer are
    added up with the weights α = mean of ∂S/∂A over space, and what is negative is left
    out. One number for each position of the layer; `.upsample()` brings it to the size
    of the input. One forward pass, and a backward pass down to the layer.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((8, 8, 3)),
    ...         keras.layers.Conv2D(4, 3, activation="relu", name="conv"),
    ...         keras.layers.GlobalAveragePooling2D(),
    ...         keras.layers.Dense(2),
    ...     ]
    ... )
    >>> a = gw.grad_cam(model, np.ones((5, 8, 8, 3)), gw.class_score(1), layer="conv")
    >>> a.values.shape, a.upsample().values.shape
    ((5, 6, 6), (5, 8, 8))

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose channels are added up: an address, or anything that
            `activations` takes. Usually the last one with axes of space or time.
        relu: False keeps what speaks against the target, below zero.
        data_format: `"channels_last"` or `"channels_first"`, where the layer and the
            model do not say.
        batch_size: The most examples that go through the model at a time.

    Returns:
        The attribution.

    Raises:
        GradwatchError: When the layer has no axes of space or time.
    """
    problem = cam_problem(model, x, target, layer, batch_size=batch_size)
    return mapped(problem, _weights, relu=relu, data_format=data_format)


def _weights(
    activation: np.ndarray, gradient: np.ndarray, spatial: tuple[int, ...]
) -> np.ndarray:
    del activation
    return np.asarray(gradient.mean(axis=spatial, keepdims=True))
