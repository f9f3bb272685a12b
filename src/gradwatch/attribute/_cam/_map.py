"""The channels of a layer, added up with weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from ..._errors import GradwatchError, arg, listing
from ...select import require_model, walk
from .._method import result
from .._problem import Problem
from .._result import Attribution

Weigh = Callable[[np.ndarray, np.ndarray, tuple[int, ...]], np.ndarray]
"""Maps activation, gradient and the axes of space to weights of the channels."""


def cam_problem(model: Any, x: Any, target: Any, layer: Any, **options: Any) -> Problem:
    """Returns the problem at a layer.

    Raises:
        GradwatchError: If no layer is named.
    """
    if layer is None:
        require_model(model)
        spatial = [
            address
            for address, node in walk(model).layers.items()
            if isinstance(node.layer, _CONVOLUTIONS)
        ]
        near = f" The last convolution is `layer={spatial[-1]!r}`." if spatial else ""
        raise GradwatchError(
            f"{arg('layer')} must name the layer whose channels are added up. "
            f"Received: None.{near} {listing()} lists them all."
        )
    return Problem(model, x, target, layer, **options)


_CONVOLUTIONS = (
    *(keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D),
    *(keras.layers.SeparableConv1D, keras.layers.SeparableConv2D),
    *(keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D),
)


def cam(
    problem: Problem, weigh: Weigh, *, relu: bool, data_format: str | None
) -> Attribution:
    """Returns the map of each tensor of the layer."""
    scores, gradients, activations = problem.own()
    maps = []
    for number, (gradient, activation) in enumerate(
        zip(gradients, activations, strict=True)
    ):
        axis, spatial = map_axes(problem, number, data_format)
        weights = weigh(activation, gradient, spatial)
        total = (weights * activation).sum(axis=axis).astype(activation.dtype)
        maps.append(np.maximum(total, 0) if relu else total)
    settings = {"relu": relu}
    return result(problem, maps, scores, settings=settings, data_format=data_format)


def map_axes(
    problem: Problem, number: int, data_format: str | None
) -> tuple[int, tuple[int, ...]]:
    """Returns the channel axis and the axes of space of what the layer gives.

    Raises:
        GradwatchError: If it has no axes of space.
    """
    values = problem.at.values[number]
    axis = problem.channel_axes(problem.at, data_format)[number]
    if axis is None:
        raise GradwatchError(
            f"{arg('layer')} must give channels over space or time, (batch, …, "
            f"channels). Received: {problem.at.names[number]!r}, which gives shape "
            f"{values.shape}. Name a layer before the pooling or flattening."
        )
    return axis, tuple(a for a in range(1, values.ndim) if a != axis)
