"""Rules for what the optimizer makes of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._measured import Measured
from ._agree import agree
from ._rule import Rule, Sign, decades, sure
from ._sight import Sight, median

_SMALL, _LARGE = 1e-4, 0.2
_SMALL_ALIKE, _ALIKE = 3e-4, 30.0
_SMALL_APART, _APART = 3e-5, 8.0
_UNMOVED = 1e-3
_BLOWN = 5.0
_FEW_STEPS = 20
_WORSE = 0.1
_CLIPPED, _SHRUNK, _UPDATES = 0.95, 0.2, 20
_LOST, _TINY = 0.2, 1e-5


@dataclass
class SmallUpdates(Rule):
    """Steps are too small to get anywhere."""

    symptom: str = "small-updates"
    healthy: str = "about 0.001"
    try_first: str = "Raise the learning rate: ten times, until the loss moves."
    excludes: tuple[str, ...] = ("frozen", "clipped", "converged", "warm-up")
    follows: frozenset[str] = frozenset(
        {
            *("fading", "dead-layer", "underflow", "saturated", "unreached"),
            *("initialisation", "vanishing", "exploding", "noise", "stuck-loss"),
        }
    )

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees tiny updates beside the weights, and a loss that stays."""
        past = sight.past
        if sight.step - past.first_step < _FEW_STEPS or not past.loss.stays:
            return
        ratio = _usual_ratio(sight)
        rates = past.last("learning_rate", 8)
        rising = len(rates) > 1 and rates[-1] > rates[0]
        # A loss that gets worse moves; but not by weights that hardly did.
        worse = past.loss.drop < -_WORSE and _moved(sight, ratio) > _UNMOVED
        small = _small(sight)
        if 0 < ratio < small and not rising and not worse:
            yield Sign(
                Measured("update_ratio", ratio, low=small),
                {"update over weight": ratio, "loss fell by": past.loss.drop},
                confidence=sure(decades(small / ratio)),
            )


def _moved(sight: Sight, ratio: float) -> float:
    """Returns how far the weights can have gone by now, over their norm."""
    grown = sight.total("weight_norm") / max(sight.past.first_weight_norm, 1e-30)
    return max(ratio * (sight.step - sight.past.first_step), abs(grown - 1.0))


def _small(sight: Sight) -> float:
    """Returns below what an update is too small to get anywhere.

    Where gradients pull the same way and the loss stays all the same, it is the pace
    that is missing. Where they cancel, larger steps would cancel as well.
    """
    agreement = agree(sight)
    if agreement > _ALIKE:
        return _SMALL_ALIKE
    return _SMALL_APART if agreement < _APART else _SMALL


@dataclass
class LargeUpdates(Rule):
    """Steps are so large that weights are thrown away."""

    symptom: str = "large-updates"
    healthy: str = "about 0.001, and below 0.1 after the first steps"
    try_first: str = "Lower the learning rate: ten times, until the loss falls."
    excludes: tuple[str, ...] = ("converged",)
    # Beside weights that begin at nothing any update is large.
    follows: frozenset[str] = frozenset({"initialisation"})
    patience: int = 3

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees large updates beside the weights, or weights that have blown up."""
        past = sight.past
        if past.loss.learnt:
            return
        ratio = _usual_ratio(sight)
        if ratio > _LARGE and math.isfinite(ratio):
            yield Sign(
                Measured("update_ratio", ratio, high=_LARGE),
                {"update over weight": ratio},
                confidence=sure(decades(ratio / _LARGE)),
            )
            return
        grown = sight.total("weight_norm") / max(past.first_weight_norm, 1e-30)
        if grown > _BLOWN and past.loss.rises:
            yield Sign(
                Measured("weight_growth", grown, high=_BLOWN),
                {"norm of the weights over that of the beginning": grown},
                healthy="below 2",
                confidence=sure(decades(grown / _BLOWN)),
            )


def _usual_ratio(sight: Sight) -> float:
    """The median over kernels; NaN at steps that update nothing."""
    if not sight.updates:
        return math.nan
    ratios = sight.ratio[sight.chart.kernels]
    ratios = ratios[~np.isnan(ratios)]
    return median(ratios) if len(ratios) else math.nan


@dataclass
class Clipping(Rule):
    """Clipping decides the length of nearly every step."""

    symptom: str = "clipping"
    healthy: str = "some updates, or by less than a factor of five"
    try_first: str = (
        "Raise the limit to about the usual norm of the gradient, or lower the "
        "learning rate and drop clipping."
    )

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees that most updates are shortened, and by how much."""
        clipped = sight.past.updates("clipped")
        if len(clipped) < _UPDATES or clipped.mean() < _CLIPPED:
            return
        before = sight.past.updates("global_norm")
        after = sight.past.updates("applied_norm")
        if len(before) != len(after):
            return
        with np.errstate(divide="ignore", invalid="ignore"):
            left = float(np.nanmedian(after / before))
        if left < _SHRUNK:
            yield Sign(
                Measured("clipped_length", left, low=_SHRUNK),
                {
                    "share of updates that are clipped": float(clipped.mean()),
                    "what clipping leaves of a gradient": left,
                    "usual norm": median(before),
                },
                confidence=sure(decades(_SHRUNK / left) if left else 1.0),
            )


def lost_in_half(sight: Sight) -> NDArray[np.bool_]:
    """Kernels in float16 many of whose gradients are zero, where others are tiny.

    A gradient that is zero throughout may have another reason, unless its neighbours
    are about to vanish as well.
    """
    chart = sight.chart
    tiny = chart.half & chart.kernels & (sight.zeros >= _LOST) & (sight.rms < _TINY)
    there = tiny & (sight.g > 0)
    if there.any():
        return tiny
    # All that is left may be the last layer, whose gradients are not zero yet.
    small = chart.kernels & (sight.g > 0) & (sight.rms < _TINY)
    return tiny if small.any() else there


@dataclass
class Underflow(Rule):
    """Gradients or updates are too small for the numbers they are kept in."""

    symptom: str = "underflow"
    healthy: str = "few zeros"
    try_first: str = (
        "Use the policy `mixed_float16` with `LossScaleOptimizer` (Keras adds it when "
        "the model has that policy), or `mixed_bfloat16`."
    )
    excludes: tuple[str, ...] = ("frozen",)
    single: bool = True

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Sees many zeros among tiny numbers, and updates that change nothing."""
        chart = sight.chart
        if sight.totals.get("loss_scale", 1.0) == 1.0:
            lost = lost_in_half(sight)
            if lost.any():
                share = float(np.median(sight.zeros[lost]))
                yield Sign(
                    Measured("lost_gradients", share, high=_LOST),
                    {
                        "share of gradients that became zero": share,
                        "root mean square": median(sight.rms[lost]),
                    },
                    chart.layers_of(lost),
                    key="gradients",
                    confidence=0.9,
                )
        if sight.updates and chart.narrow.any():
            still = chart.narrow & chart.kernels & (sight.u == 0) & (sight.g > 0)
            if still.any() and sight.totals.get("learning_rate", 1.0) > 0:
                yield Sign(
                    Measured("lost_updates", int(still.sum()), high=0.0),
                    {"weights whose update is lost in rounding": int(still.sum())},
                    chart.layers_of(still),
                    key="updates",
                    healthy="none",
                    try_first="Keep weights in float32: a policy that begins with "
                    "`mixed_`.",
                    confidence=0.95,
                )
