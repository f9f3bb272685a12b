"""Rules for how a model was set up, and for what its activations say of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._measured import Measured
from ._rule import Rule, Sign, decades, sure
from ._sight import Sight, median

_LOW, _HIGH = 0.05, 3.0
_HALF = 0.5
_FLAT = 0.1
_STEEPEST = {"tanh": 1.0, "sigmoid": 0.25, "hard_sigmoid": 0.25}


@dataclass
class Initialisation(Rule):
    """Weights begin too large, too small, or all alike."""

    symptom: str = "initialisation"
    healthy: str = "between 0.1 and 1.5"
    try_first: str = (
        "Leave `kernel_initializer` at its default, or use 'he_normal' before ReLU."
    )
    excludes: tuple[str, ...] = ("frozen",)
    patience: int = 1
    single: bool = False

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees it at the first recorded step, by the weights before their update."""
        chart, past = sight.chart, sight.past
        if past.count > 1 or sight.step > 0:
            return
        kernels = (chart.names[line] for line in np.flatnonzero(chart.kernels))
        alike = [name for name in kernels if self._is_alike(sight, name)]
        if alike:
            yield Sign(
                Measured("equal_weights", len(alike), high=0.0),
                {"kernels whose numbers are all the same": len(alike)},
                tuple(alike),
                key="alike",
                healthy="none: units that begin alike stay alike",
                confidence=0.95,
                certain=True,
            )
        gains = self._gains(sight)
        if not gains:
            return
        values = np.array(list(gains.values()))
        for key, odd in (("large", values > _HIGH), ("small", values < _LOW)):
            if odd.mean() >= _HALF and (values > 0).any():
                names = tuple(n for n, is_odd in zip(gains, odd, strict=True) if is_odd)
                usual = median(values[odd])
                far = usual / _HIGH if key == "large" else _LOW / max(usual, 1e-30)
                yield Sign(
                    Measured("weight_spread", usual, _LOW, _HIGH),
                    {"spread of weights times root of inputs": usual},
                    names,
                    key=key,
                    confidence=sure(decades(far)),
                    certain=True,
                )

    def _is_alike(self, sight: Sight, name: str) -> bool:
        # A head may begin at zero: it has one unit for each output.
        chart = sight.chart
        return bool(chart.fact(name, "constant")) and name not in chart.head_weights

    def _gains(self, sight: Sight) -> dict[str, float]:
        chart = sight.chart
        found = {}
        for line in np.flatnonzero(chart.plain):
            name = chart.names[line]
            shape = chart.fact(name, "shape")
            if shape is None or name in chart.head_weights:
                continue
            inputs = math.prod(shape[:-1])
            rms = sight.w[line] / math.sqrt(max(chart.sizes[line], 1.0))
            if math.isfinite(rms) and rms > 0:
                found[name] = float(rms * math.sqrt(inputs))
        return found


@dataclass
class Frozen(Rule):
    """A layer does not train and was never trained."""

    symptom: str = "frozen"
    healthy: str = "layers are frozen when they have been trained"
    try_first: str = (
        "Set `layer.trainable = True` and compile again, or load the weights that were "
        "meant to be there."
    )
    patience: int = 1

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees weights that are not trainable, as their initialiser makes them."""
        found = sight.chart.frozen_at_random
        if found:
            yield Sign(
                Measured("frozen_weights", len(found), high=0.0),
                {"weights that are frozen as they were initialised": len(found)},
                tuple(dict.fromkeys(sight.chart.layer_of(name) for name in found)),
                confidence=0.9,
                certain=True,
            )


@dataclass
class NotFrozen(Rule):
    """A layer trains that is marked as frozen."""

    symptom: str = "not-frozen"
    healthy: str = "frozen weights do not move"
    try_first: str = "Call `model.compile` again after changing `trainable`."
    patience: int = 1
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees updates of weights that are not trainable."""
        chart = sight.chart
        moving = chart.marked & (sight.u > 0)
        if moving.any():
            yield Sign(
                Measured("moving_weights", int(moving.sum()), high=0.0),
                {"frozen weights that move": int(moving.sum())},
                chart.layers_of(moving),
                confidence=0.95,
                certain=True,
            )


@dataclass
class Saturated(Rule):
    """Activations sit where their function is flat."""

    symptom: str = "saturated"
    healthy: str = "above 0.3"
    try_first: str = (
        "Scale the inputs to about one, use smaller weights at the beginning, or add "
        "normalisation before the activation."
    )
    excludes: tuple[str, ...] = ("converged",)
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees the mean slope, which for these functions follows from the moments.

        The slope of tanh is 1 - y², that of a sigmoid y - y²: their means need only the
        mean and the mean square of y.
        """
        values = sight.values
        for place, name in enumerate(values.names):
            layer = name.partition("@")[0]
            steepest = _STEEPEST.get(sight.chart.own_activation(layer) or "")
            if steepest is None or layer in sight.chart.heads:
                continue
            mean = values.mean[place]
            square = mean**2 + values.std[place] ** 2
            slope = (1.0 if steepest == 1.0 else mean) - square
            share = float(slope / steepest)
            if share < _FLAT:
                yield Sign(
                    Measured("slope", max(share, 0.0), low=_FLAT),
                    {"mean slope over the steepest": max(share, 0.0)},
                    (name,),
                    key=name,
                    confidence=sure(decades(_FLAT / max(share, 1e-6))),
                )
