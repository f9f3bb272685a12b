"""Score-CAM: a map without gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._errors import GradwatchError, arg, quoted
from .._axes import channel_axis
from .._method import method
from .._place import Place
from .._problem import Problem
from .._resize import resized
from .._result import Attribution
from ._map import cam, cam_problem


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
    problem = cam_problem(model, x, target, layer, batch_size=batch_size, free="inputs")

    def weigh(
        activation: np.ndarray, gradient: np.ndarray, spatial: tuple[int, ...]
    ) -> np.ndarray:
        del gradient
        [axis] = {*range(1, activation.ndim)} - {*spatial}
        increase = _masked_scores(problem, np.moveaxis(activation, axis, 0))
        increase = np.exp(increase - increase.max(axis=0))
        weights = increase / increase.sum(axis=0)
        return np.expand_dims(weights.T, spatial)

    return cam(problem, weigh, relu=relu, data_format=data_format)


def _masked_scores(problem: Problem, channels: np.ndarray) -> np.ndarray:
    """Returns the target for the input under each mask: [channels, examples]."""
    masked = _masked(problem, channels.ndim - 2)

    def point(number: int, rows: np.ndarray) -> list[np.ndarray]:
        return [
            values[rows] * _mask(channels[number, rows], place)
            if place
            else values[rows]
            for values, place in zip(problem.free.values, masked, strict=True)
        ]

    return problem.scores_at(len(channels), point)


def _masked(problem: Problem, axes: int) -> list[Place | None]:
    """Returns the inputs that have the axes of space that the layer has."""
    places: list[Place | None] = []
    free = problem.free
    for name, values in zip(free.names, free.values, strict=True):
        axis = channel_axis(problem.tree, None, values.ndim)
        place = Place(name, values, values, axis)
        places.append(place if len(place.spatial) == axes else None)
    if not any(places):
        raise GradwatchError(
            f"{arg('layer')} must have as many axes of space as an input has. "
            f"Received: {quoted(problem.at.names)} with {axes}, and inputs of shape "
            f"{[v.shape for v in free.values]}."
        )
    return places


def _mask(masks: np.ndarray, place: Place) -> np.ndarray:
    """Returns masks of the input's size, from 0 to 1, with room for its channels."""
    for axis, source in enumerate(place.spatial, start=1):
        masks = resized(masks, axis, place.values.shape[source])
    axes = tuple(range(1, masks.ndim))
    low = masks.min(axis=axes, keepdims=True)
    spread = masks.max(axis=axes, keepdims=True) - low
    # A channel that is the same everywhere masks everything.
    scaled = np.divide(masks - low, spread, out=np.zeros_like(masks), where=spread > 0)
    return scaled if place.channels is None else np.expand_dims(scaled, place.channels)
