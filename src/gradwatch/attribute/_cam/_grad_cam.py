"""Grad-CAM and its kin: maps from the gradient at a layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._method import method
from .._place import Place
from .._result import Attribution
from ._map import cam, cam_problem


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
        batch_size: Maximum number of examples in a pass.

    Returns:
        The attribution.

    Raises:
        GradwatchError: If the layer has no axes of space or time.
    """
    problem = cam_problem(model, x, target, layer, data_format, batch_size)

    def weigh(place: Place, gradient: np.ndarray) -> np.ndarray:
        return np.asarray(gradient.mean(axis=place.spatial, keepdims=True))

    return cam(problem, weigh, relu=relu)


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
    and 19: a channel A weighs Σ α · relu(g) with g = ∂S/∂A and, at each place,
    α = g² / (2 g² + (Σ A) · g³), with the sum of A over all places. The paper's factor
    exp(S), the same for all channels, is left out. One forward pass, and a backward
    pass down to the layer.

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
        batch_size: Maximum number of examples in a pass.

    Returns:
        The attribution.
    """
    problem = cam_problem(model, x, target, layer, data_format, batch_size)
    return cam(problem, _fair_gradient, relu=relu)


@method
def layer_cam(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    relu: bool = True,
    data_format: str | None = None,
    batch_size: int | None = None,
) -> Attribution:
    """A map as `grad_cam` draws it, with a weight for each position: fine at any depth.

    Jiang, Zhang, Hou, Cheng and Wei, *LayerCAM* (2021), eqs. 6 to 8: each number of the
    layer weighs relu(∂S/∂A) at its own place. One forward pass, and a backward pass
    down to the layer.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> conv = keras.layers.Conv2D(4, 3, activation="relu", name="conv")
    >>> pool = keras.layers.GlobalAveragePooling2D()
    >>> model = keras.Sequential([keras.Input((8, 8, 3)), conv, pool])
    >>> x = np.ones((5, 8, 8, 3))
    >>> attribute.layer_cam(model, x, class_score(1), layer="conv").values.shape
    (5, 6, 6)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose channels are added up.
        relu: False keeps what is below zero in the map.
        data_format: `"channels_last"` or `"channels_first"`, where nothing says.
        batch_size: Maximum number of examples in a pass.

    Returns:
        The attribution.
    """
    problem = cam_problem(model, x, target, layer, data_format, batch_size)
    return cam(problem, lambda _, gradient: np.maximum(gradient, 0), relu=relu)


def _fair_gradient(place: Place, gradient: np.ndarray) -> np.ndarray:
    # In float64: the cube of a small gradient is nothing in float32.
    g = gradient.astype("float64")
    sums = place.values.astype("float64").sum(axis=place.spatial, keepdims=True)
    # Of all places the activation, of this one the gradient: eq. 19 has two indices.
    below = 2 * g**2 + sums * g**3
    alpha = np.divide(g**2, below, out=np.zeros_like(g), where=below != 0)
    weights = (alpha * np.maximum(g, 0)).sum(axis=place.spatial, keepdims=True)
    return np.asarray(weights, dtype=gradient.dtype)
