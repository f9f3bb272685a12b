"""Grad-CAM++."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._cam import cam_problem, mapped
from ._method import method
from ._result import Attribution


@method
def grad_cam_plus_plus(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    relu: bool = True,
    data_format: str | None = None,
    batch_size: int | None = None,
) -> Attribution:
    """A map as `grad_cam` draws it, but fairer to things that appear several times.

    Chattopadhay, Sarkar, Howlader and Balasubramanian, *Grad-CAM++* (2018), eqs. 5, 6
    and 19: a channel A weighs Σ α · relu(g) with g = ∂S/∂A and
    α = g² / (2 g² + Σ A · g³), the sum over space. The paper's factor exp(S), the same
    for all channels, is left out. One forward pass, and a backward pass down to the
    layer.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> conv = keras.layers.Conv2D(4, 3, activation="relu", name="conv")
    >>> pool = keras.layers.GlobalAveragePooling2D()
    >>> model = keras.Sequential([keras.Input((8, 8, 3)), conv, pool])
    >>> x = np.ones((5, 8, 8, 3))
    >>> a = attribute.grad_cam_plus_plus(model, x, class_score(1), layer="conv")
    >>> a.values.shape
    (5, 6, 6)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose channels are added up.
        relu: False keeps what speaks against the target, below zero.
        data_format: `"channels_last"` or `"channels_first"`, where nothing says.
        batch_size: The most examples that go through the model at a time.

    Returns:
        The attribution.
    """
    problem = cam_problem(model, x, target, layer, batch_size=batch_size)
    return mapped(problem, _weights, relu=relu, data_format=data_format)


def _weights(
    activation: np.ndarray, gradient: np.ndarray, spatial: tuple[int, ...]
) -> np.ndarray:
    # In float64: the cube of a small gradient is nothing in float32.
    g = gradient.astype("float64")
    cubes = (activation * g**3).sum(axis=spatial, keepdims=True)
    below = 2 * g**2 + cubes
    alpha = np.divide(g**2, below, out=np.zeros_like(g), where=below != 0)
    weights = (alpha * np.maximum(g, 0)).sum(axis=spatial, keepdims=True)
    return np.asarray(weights, dtype=gradient.dtype)
