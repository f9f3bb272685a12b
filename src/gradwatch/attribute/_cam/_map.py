"""The channels of a layer, added up with weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..._errors import arg, require
from ...select import at_layer, require_model, walk
from .._method import result
from .._place import Place
from .._problem import Problem
from .._result import Attribution

Weigh = Callable[[Place, np.ndarray], np.ndarray]
"""Maps what a layer gives, and the gradient there, to weights of the channels."""


def cam_problem(
    model: Any, x: Any, target: Any, layer: Any, *how: Any, free: str = "layer"
) -> Problem:
    """Returns the problem at a layer.

    Raises:
        GradwatchError: If no layer is named.
    """
    if layer is None:
        require_model(model)
        layers = walk(model).layers
        spatial = [a for a in layers if hasattr(layers[a].layer, "kernel_size")]
        near = f" The last convolution is `layer={spatial[-1]!r}`." if spatial else ""
        at_layer(layer, "whose channels are added up", near)
    options: Any = dict(zip(("data_format", "batch_size"), how, strict=False))
    return Problem(model, x, target, layer, free=free, **options)


def cam(problem: Problem, weigh: Weigh, *, relu: bool) -> Attribution:
    """Returns the map of each tensor of the layer.

    Raises:
        GradwatchError: If it has no axes of space.
    """
    scores, gradients, _ = problem.own
    maps = []
    for place, gradient in zip(problem.at.places, gradients, strict=True):
        rule = f"{arg('layer')} must give channels, as (batch, …, channels)."
        received = place.name, place.values.shape
        way_out = "Name a layer before the pooling or flattening."
        require(place.channels is not None, rule, received, way_out)
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
    shapes = [place.values.shape for place in inputs]
    rule = f"{arg('layer')} must have as many axes of space as an input of {shapes}."
    require(any(fits), rule, {"layer": [*names], "axes": axes})
    return fits
