"""Rules for the setup of a model, and for what its activations say of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import compress

import numpy as np

from .._measured import Measured
from ._quantities import slopes, weight_spreads
from ._rule import Sign, rule, signs_beyond
from ._snapshot import Snapshot, median

_LOW, _HIGH = 0.05, 3.0
_HALF = 0.5
_FLAT = 0.1


@rule(
    "initialisation",
    healthy="between 0.1 and 1.5",
    try_first="Leave `kernel_initializer` at its default, or use 'he_normal' before "
    "ReLU.",
    excludes=("frozen",),
    patience=1,
    at_start=True,
)
def initialisation(step: Snapshot) -> Iterator[Sign]:
    """Weights begin too large, too small, or all alike."""
    if step.step > 0:
        return
    parameters = step.parameters
    # A head may begin at zero: it has one unit for each output.
    alike = [
        name
        for name in parameters.names_of(parameters.kernels)
        if parameters.fact(name, "constant")
        and parameters.layer_of(name) not in parameters.heads
    ]
    if alike:
        yield Sign(
            Measured("equal_weights", len(alike), high=0.0),
            "kernels whose numbers are all the same",
            tuple(alike),
            key="alike",
            confidence=0.95,
            healthy="none: units that begin alike stay alike",
        )
    spreads = {n: s for n, s in weight_spreads(step).items() if 0 < s < math.inf}
    values = np.array(list(spreads.values()))
    for key, odd in (("large", values > _HIGH), ("small", values < _LOW)):
        if len(values) and odd.mean() >= _HALF:
            yield Sign(
                Measured("weight_spread", median(values[odd]), _LOW, _HIGH),
                "spread of weights times root of inputs",
                tuple(compress(spreads, odd)),
                key=key,
            )


@rule(
    "frozen",
    healthy="layers are frozen when they have been trained",
    try_first="Set `layer.trainable = True` and compile again, or load the weights "
    "that were meant to be there.",
    patience=1,
    at_start=True,
)
def frozen(step: Snapshot) -> Iterator[Sign]:
    """A layer does not train, and is as its initialiser made it."""
    names = step.parameters.frozen_untrained
    if names:
        yield Sign(
            Measured("frozen_weights", len(names), high=0.0),
            "weights that are frozen as they were initialised",
            tuple(dict.fromkeys(map(step.parameters.layer_of, names))),
            confidence=0.9,
        )


@rule(
    "not-frozen",
    healthy="frozen weights do not move",
    try_first="Call `model.compile` again after changing `trainable`.",
    patience=1,
)
def not_frozen(step: Snapshot) -> Iterator[Sign]:
    """A layer trains though it is marked as frozen."""
    marked = step.parameters.marked_frozen
    if marked.any() and (moving := marked & (step["update_norm"] > 0)).any():
        yield Sign(
            Measured("moving_weights", int(moving.sum()), high=0.0),
            "frozen weights that move",
            step.parameters.layers_of(moving),
            confidence=0.95,
        )


@rule(
    "saturated",
    healthy="above 0.3",
    try_first="Scale the inputs to about one, use smaller weights at the beginning, or "
    "add normalisation before the activation.",
    excludes=("converged",),
)
def saturated(step: Snapshot) -> Iterator[Sign]:
    """Activations sit where their function is flat."""
    # Rounding makes a slope of nothing negative.
    shares = {name: max(slope, 0.0) for name, slope in slopes(step).items()}
    yield from signs_beyond("slope", "mean slope over the steepest", shares, low=_FLAT)
