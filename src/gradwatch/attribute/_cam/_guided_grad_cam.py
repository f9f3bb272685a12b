"""Guided Grad-CAM: where, and in detail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..._errors import arg, require
from .._gradient import guided_backprop
from .._method import method
from .._place import spread_over
from .._result import Attribution
from ._grad_cam import grad_cam
from ._map import cam_problem, lying_over


@method
def guided_grad_cam(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    data_format: str | None = None,
    batch_size: int | None = None,
) -> Attribution:
    """Guided backpropagation, where Grad-CAM saw the target.

    Selvaraju et al., *Grad-CAM* (2017), section 3.2: the map of `grad_cam`, brought to
    the size of the input, times `guided_backprop`. One forward and one backward pass
    for each of the two.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> conv = keras.layers.Conv2D(4, 3, activation="relu", name="conv")
    >>> pool = keras.layers.GlobalAveragePooling2D()
    >>> model = keras.Sequential([keras.Input((8, 8, 3)), conv, pool])
    >>> x = np.ones((5, 8, 8, 3))
    >>> attribute.guided_grad_cam(model, x, class_score(1), layer="conv").values.shape
    (5, 8, 8, 3)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer of the map.
        data_format: `"channels_last"` or `"channels_first"`, where nothing says.
        batch_size: Maximum number of examples in a pass.

    Returns:
        The attribution: to the inputs; `layer` is that of the map.
    """
    cam_problem(model, x, target, layer, free="inputs")  # both must be possible
    where = grad_cam(
        model, x, target, layer=layer, data_format=data_format, batch_size=batch_size
    )
    rule = f"{arg('layer')} must give one tensor, in one call, to draw the map from."
    way_out = "'layer@1' is its first call, 'layer[0]' its first tensor."
    require(len(where.places) == 1, rule, where.names, way_out)
    map_ = where.places[0]
    lying_over(where.names, len(map_.spatial), where.sources)
    guided = guided_backprop(model, x, target, batch_size=batch_size)
    # Values stay as they are where the map cannot lie over them.
    places = [
        replace(place, values=place.values * spread_over(map_.values, place))
        if len(place.spatial) == len(map_.spatial)
        else place
        for place in guided.places
    ]
    return replace(guided, places=tuple(places), layer=where.layer)
