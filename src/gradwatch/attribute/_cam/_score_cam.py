"""Score-CAM: a map without gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._method import method
from .._place import Place, spread_over
from .._problem import Problem
from .._result import Attribution
from ._map import cam, cam_problem, lying_over


@method
def score_cam(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    relu: bool = True,
    data_format: str | None = None,
    batch_size: int | None = None,
) -> Attribution:
    """A map as `grad_cam` draws it, each channel weighed by what it alone lets through.

    Wang et al., *Score-CAM* (2020), eqs. 3 to 6 and algorithm 1: each channel, brought
    to the size of the input and to the range from 0 to 1, masks the input; the targets
    of the masked inputs, through a softmax over the channels, are the weights. As many
    forward passes of the batch as the layer has channels.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> conv = keras.layers.Conv2D(4, 3, activation="relu", name="conv")
    >>> pool = keras.layers.GlobalAveragePooling2D()
    >>> model = keras.Sequential([keras.Input((8, 8, 3)), conv, pool])
    >>> x = np.ones((5, 8, 8, 3))
    >>> attribute.score_cam(model, x, class_score(1), layer="conv").values.shape
    (5, 6, 6)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose channels are added up.
        relu: False keeps what is below zero in the map.
        data_format: `"channels_last"` or `"channels_first"`, where nothing says.
        batch_size: Maximum number of rows in a pass.

    Returns:
        The attribution.
    """
    how = data_format, batch_size
    problem = cam_problem(model, x, target, layer, *how, free="inputs")

    def weigh(place: Place, _: np.ndarray) -> np.ndarray:
        channels = np.moveaxis(place.values, place.channels or 0, 0)
        increase = _masked_scores(problem, channels)
        increase = np.exp(increase - increase.max(axis=0))
        return np.expand_dims((increase / increase.sum(axis=0)).T, place.spatial)

    return cam(problem, weigh, relu=relu)


def _masked_scores(problem: Problem, channels: np.ndarray) -> np.ndarray:
    """Returns the target for the input under each mask: [channels, examples]."""
    inputs = problem.free.places
    masked = lying_over(problem.at.names, channels.ndim - 2, inputs)

    def point(number: int, rows: np.ndarray) -> list[np.ndarray]:
        return [
            place.values[rows] * (_mask(channels[number, rows], place) if fits else 1)
            for place, fits in zip(inputs, masked, strict=True)
        ]

    return problem.scores_at(len(channels), point)


def _mask(masks: np.ndarray, place: Place) -> np.ndarray:
    """Returns masks of the input's size, from 0 to 1, with room for its channels."""
    masks = spread_over(masks, place)
    axes = tuple(range(1, masks.ndim))
    low = masks.min(axis=axes, keepdims=True)
    spread = masks.max(axis=axes, keepdims=True) - low
    # A channel that is the same everywhere masks everything.
    nothing = np.zeros_like(masks)
    return np.asarray(np.divide(masks - low, spread, out=nothing, where=spread > 0))
