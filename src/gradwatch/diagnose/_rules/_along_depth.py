"""Rules that compare layers with each other at one step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._measured import Measured
from ._rule import Rule, Sign, decades, sure
from ._sight import Numbers, Sight

_FEWEST, _MORE = 4, 6
_VANISHED, _EXPLODED = 3.0, 1.75
_GROWN = 2.5
_STEADY, _STEADIER = 0.7, 0.85
_ALONE = 100.0
_HEADS = 100.0


class Profile(NamedTuple):
    """How a quantity changes along depth.

    Attributes:
        quantity: The name of the quantity.
        what: The quantity, in words.
        rise: By how many decades it is larger near the output than near the input.
        steady: The correlation of its logarithm with depth.
        first: The weights nearest to the input.
        length: How many weights it was measured at.
    """

    quantity: str
    what: str
    rise: float
    steady: float
    first: tuple[str, ...]
    length: int


def profiles(sight: Sight) -> list[Profile]:
    """Returns how gradients change along depth, where they do by decades.

    In a network of rectifiers the gradient of a kernel is as large as the activation
    before it is, times the gradient after it: if one falls with depth as the other
    grows, kernels do not show it, and biases do.
    """
    if sight.profiles is None:
        sight.profiles = list(_profiles(sight))
    found: list[Profile] = sight.profiles
    return found


def _profiles(sight: Sight) -> Iterator[Profile]:
    chart = sight.chart
    seen = (
        ("kernels_along_depth", "gradient times weight of kernels"),
        ("biases_along_depth", "gradient of biases"),
    )
    numbers_of = ((sight.pull, chart.kernels), (sight.rms, chart.shifts))
    for (quantity, what), (numbers, chosen) in zip(seen, numbers_of, strict=True):
        # What is exactly zero was not reached at all, which is another matter.
        lines = np.flatnonzero(chosen & np.isfinite(numbers) & (numbers > 0))
        if len(lines) < _FEWEST:
            continue
        rise, steady = _trend(np.log10(numbers[lines]))
        if abs(rise) >= _EXPLODED:
            third = len(lines) // 3
            first = tuple(chart.names[line] for line in lines[: max(1, third)])
            yield Profile(quantity, what, rise, steady, first, len(lines))


def _trend(logs: Numbers) -> tuple[float, float]:
    """By how much a straight line rises from end to end, and how well it fits."""
    places = np.arange(len(logs)) - (len(logs) - 1) / 2
    away = logs - logs.mean()
    slope = float(places @ away / (places @ places))
    spread = math.sqrt(float(away @ away) * float(places @ places))
    steady = slope * float(places @ places) / spread if spread > 0 else 0.0
    return slope * (len(logs) - 1), steady


@dataclass
class Vanishing(Rule):
    """Gradients become smaller and smaller towards the input."""

    symptom: str = "vanishing"
    healthy: str = "less than a factor of 1,000 between the ends of a network"
    try_first: str = (
        "Replace sigmoid or tanh by ReLU or GELU, use He or Glorot initialisation, and "
        "add normalisation or residual connections."
    )
    excludes: tuple[str, ...] = ("frozen", "clipped", "converged")
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees what falls by decades, steadily."""
        for found in profiles(sight):
            if found.rise >= _VANISHED and found.steady >= _STEADY:
                ratio = 10.0**-found.rise
                yield Sign(
                    Measured(found.quantity, ratio, low=10.0**-_VANISHED),
                    {f"{found.what}, input over output end": ratio},
                    found.first,
                    confidence=sure(found.rise - _VANISHED),
                )
                return


@dataclass
class Exploding(Rule):
    """Gradients become larger and larger towards the input."""

    symptom: str = "exploding"
    healthy: str = "less than a factor of 50 between the ends of a network"
    try_first: str = (
        "Use He or Glorot initialisation, add normalisation, and clip with "
        "`global_clipnorm=1.0` meanwhile."
    )
    excludes: tuple[str, ...] = ("converged",)
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees what grows by decades, steadily."""
        for found in profiles(sight):
            if found.length < _MORE:  # two towers of two layers are no depth
                continue
            if found.rise <= -_EXPLODED and found.steady <= -_STEADIER:
                ratio = 10.0**-found.rise
                yield Sign(
                    Measured(found.quantity, ratio, high=10.0**_EXPLODED),
                    {f"{found.what}, input over output end": ratio},
                    found.first,
                    confidence=sure(-found.rise - _EXPLODED),
                )
                return
        yield from self._forward(sight)

    def _forward(self, sight: Sight) -> Iterator[Sign]:
        """Activations that grow with depth: gradients grow on the way back as they."""
        values = sight.values
        size = np.sqrt(values.mean**2 + values.std**2)
        lines = np.flatnonzero(np.isfinite(size) & (size > 0))
        if len(lines) < _FEWEST:
            return
        rise, steady = _trend(np.log10(size[lines]))
        if rise >= _GROWN and steady >= _STEADY:
            yield Sign(
                Measured("activations_along_depth", 10.0**rise, high=10.0**_GROWN),
                {"activations, output over input end": 10.0**rise},
                tuple(values.names[line] for line in lines[-max(1, len(lines) // 3) :]),
                healthy="less than a factor of 100 between the ends of a network",
                confidence=sure(rise - _GROWN),
            )


@dataclass
class DominatingLayer(Rule):
    """Nearly all of the gradient is that of one layer."""

    symptom: str = "dominating-layer"
    healthy: str = "a factor of less than 100 between the two largest"
    try_first: str = (
        "Look at what goes into and out of this layer: scale inputs to about one, and "
        "remove large constant factors; or add normalisation after it."
    )
    excludes: tuple[str, ...] = ("frozen",)
    follows: frozenset[str] = frozenset(
        {
            *("vanishing", "exploding", "fading", "dead-layer", "large-updates"),
            *("underflow", "saturated", "unreached"),
        }
    )
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees a layer that is far from all others."""
        if sight.past.loss.learnt:  # what is left is left to the last layer
            return
        owners, g = sight.chart.owners, np.nan_to_num(sight.g)
        if not len(owners) or owners.max() < _FEWEST - 2:
            return
        top = g.max()
        if not top > 0 or not math.isfinite(top):
            return
        norms = np.sqrt(np.bincount(owners, (g / top) ** 2))
        order = np.argsort(norms)
        first, second = float(norms[order[-1]]), float(norms[order[-2]])
        if second > 0 and first > _ALONE * second:
            yield Sign(
                Measured("largest_layer", first / second, high=_ALONE),
                {"gradient over that of the next layer": first / second},
                sight.chart.layers_of(owners == order[-1]),
                confidence=sure(decades(first / second / _ALONE)),
            )


@dataclass
class DominatingHead(Rule):
    """One output's loss is all that counts."""

    symptom: str = "dominating-head"
    healthy: str = "a factor of less than 100 between the heads"
    try_first: str = (
        "Scale the targets to about one, or set `loss_weights` so that the losses are "
        "of the same size."
    )
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees heads that are far from each other."""
        chart = sight.chart
        pulls: dict[str, float] = {}
        if len(chart.heads) < 2:
            return
        for head, lines in chart.head_kernels.items():
            pulls[head] = float(np.nansum(sight.pull[lines]))
        if len(pulls) < 2:
            return
        large, small = max(pulls, key=pulls.__getitem__), min(pulls.values())
        if small > 0 and pulls[large] > _HEADS * small:
            ratio = pulls[large] / small
            yield Sign(
                Measured("largest_head", ratio, high=_HEADS),
                {"gradient times weight over that of another head": ratio},
                (large,),
                confidence=sure(decades(ratio / _HEADS)),
            )
