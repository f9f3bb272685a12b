"""Layer-CAM."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._cam import cam_problem, mapped
from ._method import method
from ._result import Attribution


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
        batch_size: The most examples that go through the model at a time.

    Returns:
        The attribution.
    """
    problem = cam_problem(model, x, target, layer, batch_size=batch_size)
    return mapped(problem, _weights, relu=relu, data_format=data_format)


def _weights(
    activation: np.ndarray, gradient: np.ndarray, spatial: tuple[int, ...]
) -> np.ndarray:
    del activation, spatial
    return np.asarray(np.maximum(gradient, 0))
