"""The channels of a layer, added up with weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..._errors import GradwatchError, arg, quoted
from ...select import at_layer, require_model, walk
from .._method import result
from .._place import Place
from .._problem import Problem
from .._result import Attribution

Weigh = Callable[[Place, np.ndarray], np.ndarray]
"""Maps what a layer gives, and the gradient there, to weights of the channels."""


def cam_problem(
    model: Any,
    x: Any,
    target: Any,
    layer: Any,
    data_format: str | None = None,
    batch_size: int | None = None,
    free: str = "layer",
) -> Problem:
    """Returns the problem at a layer.

    Raises:
        GradwatchError: If no layer is named.
    """
    if layer is None:
        require_model(model)
        spatial = [
            address
            for address, node in walk(model).layers.items()
            if hasattr(node.layer, "kernel_size")
        ]
        near = f" The last convolution is `layer={spatial[-1]!r}`." if spatial else ""
        at_layer(layer, "whose channels are added up", near)
    options: Any = {"data_format": data_format, "batch_size": batch_size}
    return Problem(model, x, target, layer, free=free, **options)


def cam(problem: Problem, weigh: Weigh, *, relu: bool) -> Attribution:
    """Returns the map of each tensor of the layer.

    Raises:
        GradwatchError: If it has no axes of space.
    """
    scores, gradients, _ = problem.own
    maps = []
    for place, gradient in zip(problem.at.places, gradients, strict=True):
        if place.channels is None:
            raise GradwatchError(
                f"{arg('layer')} must give channels over space or time, (batch, …, "
                f"channels). Received: {place.name!r}, which gives shape "
                f"{place.values.shape}. Name a layer before the pooling or flattening."
            )
        weighted = weigh(place, gradient) * place.values
        total = weighted.sum(axis=place.channels).astype(place.values.dtype)
        maps.append(np.maximum(total, 0) if relu else total)
    return result(problem, maps, scores)


def lying_over(names: Iterable[str], axes: int, inputs: Iterable[Place]) -> list[bool]:
    """Returns over which inputs a map with this number of spatial axes can be laid.

    Raises:
        GradwatchError: If there is none.
    """
    inputs = list(inputs)
    fits = [len(place.spatial) == axes for place in inputs]
    if not any(fits):
        raise GradwatchError(
            f"{arg('layer')} must have as many axes of space as an input has. "
            f"Received: {quoted(names)} with {axes}, and inputs of shape "
            f"{[place.values.shape for place in inputs]}."
        )
    return fits
