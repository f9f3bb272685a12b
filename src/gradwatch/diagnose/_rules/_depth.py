"""Rules that compare layers with each other at one step."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .._measured import Measured
from ._quantities import (
    FEWEST,
    Named,
    activation_sizes,
    bias_gradients,
    head_sensitivity,
    kernel_sensitivity,
    trend,
)
from ._rule import Sign, rule
from ._snapshot import Snapshot

_TOWERS = 6
"""Two towers of two layers each are no depth: minimum length to explode along it."""
_VANISHED, _EXPLODED = 3.0, 1.75
_GROWN = 2.5
_STEADY, _STEADIER = 0.7, 0.85
_ALONE = 100.0
_HEADS = 100.0


# In a network of rectifiers the gradient of a kernel is as large as the activation
# before it is, times the gradient after it: if one falls with depth as the other grows,
# kernels do not show it, and biases do.
_PROFILES = (
    ("kernels_along_depth", "gradient times weight of kernels", kernel_sensitivity),
    ("biases_along_depth", "gradient of biases", bias_gradients),
)
"""The quantities that change along depth by decades, and their labels."""


def _third(numbers: Named, *, at_output: bool = False) -> tuple[str, ...]:
    """Returns the names of what is positive, of the third near one end."""
    names = [name for name, number in numbers.items() if 0 < number < math.inf]
    count = max(1, len(names) // 3)
    return tuple(names[-count:] if at_output else names[:count])


@rule(
    "vanishing",
    healthy="less than a factor of 1,000 between the ends of a network",
    try_first="Replace sigmoid or tanh by ReLU or GELU, use He or Glorot "
    "initialisation, and add normalisation or residual connections.",
    excludes=("frozen", "clipped", "converged"),
)
def vanishing(step: Snapshot) -> Iterator[Sign]:
    """Gradients become steadily smaller towards the input, by decades."""
    for quantity, label, numbers in _PROFILES:
        _, rise, steadiness = trend(profile := numbers(step))
        if rise >= _VANISHED and steadiness >= _STEADY:
            measured = Measured(quantity, 10.0**-rise, low=10.0**-_VANISHED)
            yield Sign(measured, f"{label}, input over output end", _third(profile))
            return


@rule(
    "exploding",
    healthy="less than a factor of 50 between the ends of a network",
    try_first="Use He or Glorot initialisation, add normalisation, and clip with "
    "`global_clipnorm=1.0` meanwhile.",
    excludes=("converged",),
)
def exploding(step: Snapshot) -> Iterator[Sign]:
    """Gradients become steadily larger towards the input, by decades."""
    for quantity, label, numbers in _PROFILES:
        count, rise, steadiness = trend(profile := numbers(step))
        long = count >= _TOWERS
        if long and rise <= -_EXPLODED and steadiness <= -_STEADIER:
            measured = Measured(quantity, 10.0**-rise, high=10.0**_EXPLODED)
            yield Sign(measured, f"{label}, input over output end", _third(profile))
            return
    # Where activations grow with depth, gradients grow on the way back as they do.
    sizes = activation_sizes(step)
    _, rise, steadiness = trend(sizes)
    if rise >= _GROWN and steadiness >= _STEADY:
        yield Sign(
            Measured("activations_along_depth", 10.0**rise, high=10.0**_GROWN),
            "activations, output over input end",
            _third(sizes, at_output=True),
            healthy="less than a factor of 100 between the ends of a network",
        )


@rule(
    "dominating-layer",
    healthy="a factor of less than 100 between the two largest",
    try_first="Look at what goes into and out of this layer: scale inputs to about "
    "one, and remove large constant factors; or add normalisation after it.",
    excludes=("frozen",),
    explained_by=(
        *("vanishing", "exploding", "fading", "dead-layer", "large-updates"),
        *("underflow", "saturated", "unreached"),
    ),
)
def dominating_layer(step: Snapshot) -> Iterator[Sign]:
    """Nearly all of the gradient is that of one layer."""
    layers, norm = step.parameters.layer_numbers, np.nan_to_num(step["norm"])
    if not len(layers) or layers.max() < FEWEST - 2:
        return
    top = norm.max()
    if not top > 0 or not math.isfinite(top):
        return
    # Divide before squaring: the square of 1e-200 is zero.
    norms = np.sqrt(np.bincount(layers, (norm / top) ** 2))
    *_, second, first = np.argsort(norms)
    # Of a loss that is learnt, the gradient that is left is that of the last layer.
    alone = 0 < _ALONE * norms[second] < norms[first]
    if alone and not step.history.loss.learnt:
        yield Sign(
            Measured("largest_layer", float(norms[first] / norms[second]), high=_ALONE),
            "gradient over that of the next layer",
            step.parameters.layers_of(layers == first),
        )


@rule(
    "dominating-head",
    healthy="a factor of less than 100 between the heads",
    try_first="Scale the targets to about one, or set `loss_weights` so that the "
    "losses are of the same size.",
)
def dominating_head(step: Snapshot) -> Iterator[Sign]:
    """The loss of one output outweighs the others."""
    heads = head_sensitivity(step)
    if len(heads) < 2:
        return
    largest, least = max(heads, key=heads.__getitem__), min(heads.values())
    if 0 < _HEADS * least < heads[largest]:
        yield Sign(
            Measured("largest_head", heads[largest] / least, high=_HEADS),
            "gradient times weight over that of another head",
            (largest,),
        )
