"""Rules for what the optimizer makes of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .._measured import Measured
from ._quantities import agreement, usual_update_ratio, weight_growth
from ._rule import Sign, rule
from ._snapshot import Snapshot, median

_SMALL, _LARGE = 1e-4, 0.2
_SMALL_ALIKE, _ALIKE = 3e-4, 30.0
_SMALL_APART, _APART = 3e-5, 8.0
_UNMOVED = 1e-3
_BLOWN = 5.0
_FEW_STEPS = 20
_WORSE = 0.1
_CLIPPED, _SHRUNK, _UPDATES = 0.95, 0.2, 20
_LOST, _TINY = 0.2, 1e-5


@rule(
    "small-updates",
    healthy="about 0.001",
    try_first="Raise the learning rate: ten times, until the loss moves.",
    excludes=("frozen", "clipped", "converged", "a warm-up"),
    explained_by=(
        *("fading", "dead-layer", "underflow", "saturated", "unreached"),
        *("initialisation", "vanishing", "exploding", "noise", "stuck-loss"),
    ),
)
def small_updates(step: Snapshot) -> Iterator[Sign]:
    """Updates are tiny beside the weights, and the loss stays."""
    loss = step.history.loss
    ratio = usual_update_ratio(step)
    small = 0 < ratio < max(_SMALL_ALIKE, _SMALL_APART, _SMALL)  # whatever the limit is
    if step.age < _FEW_STEPS or not small or not loss.stays:
        return
    rates = step.history.newest("learning_rate", 8)
    rising = len(rates) > 1 and rates[-1] > rates[0]
    # A loss that gets worse moves; but not by weights that hardly did.
    moved = max(ratio * step.age, abs(weight_growth(step) - 1.0))
    worse = loss.drop < -_WORSE and moved > _UNMOVED
    limit = _too_small(step)
    if ratio < limit and not rising and not worse:
        yield Sign(
            Measured("update_ratio", ratio, low=limit),
            {"update over weight": ratio, "loss fell by": loss.drop},
        )


def _too_small(step: Snapshot) -> float:
    """Returns the ratio of update to weight below which a training gets nowhere.

    Where gradients pull the same way and the loss stays all the same, it is the pace
    that is missing. Where they cancel, larger steps would cancel as well.
    """
    agreed = agreement(step)
    if agreed > _ALIKE:
        return _SMALL_ALIKE
    return _SMALL_APART if agreed < _APART else _SMALL


@rule(
    "large-updates",
    healthy="about 0.001, and below 0.1 after the first steps",
    try_first="Lower the learning rate: ten times, until the loss falls.",
    excludes=("converged",),
    # Beside weights that begin at nothing any update is large.
    explained_by=("initialisation",),
    patience=3,
)
def large_updates(step: Snapshot) -> Iterator[Sign]:
    """Updates are large beside the weights, or the weights have blown up."""
    ratio, grown = usual_update_ratio(step), weight_growth(step)
    loss = step.history.loss
    # The loss comes last: to ask whether it is learnt takes longer than the rest.
    if _LARGE < ratio < math.inf and not loss.learnt:
        measured = Measured("update_ratio", ratio, high=_LARGE)
        yield Sign(measured, "update over weight")
    elif grown > _BLOWN and loss.rises and not loss.learnt:
        yield Sign(
            Measured("weight_growth", grown, high=_BLOWN),
            "norm of the weights over that of the beginning",
            healthy="below 2",
        )


@rule(
    "clipping",
    healthy="some updates, or by less than a factor of five",
    try_first="Raise the limit to about the usual norm of the gradient, or lower the "
    "learning rate and drop clipping.",
)
def clipping(step: Snapshot) -> Iterator[Sign]:
    """Clipping decides the length of nearly every update."""
    clipped = step.history.newest("clipped", updates=True)
    if len(clipped) < _UPDATES or clipped.mean() < _CLIPPED:
        return
    before, after = (
        step.history.newest(name, updates=True)
        for name in ("global_norm", "applied_norm")
    )
    if len(before) != len(after):
        return
    left = float(np.nanmedian(after / before))
    if left < _SHRUNK:
        yield Sign(
            Measured("clipped_length", left, low=_SHRUNK),
            {
                "share of updates that are clipped": float(clipped.mean()),
                "what clipping leaves of a gradient": left,
                "usual norm": median(before),
            },
        )


def lost_in_half(step: Snapshot) -> NDArray[np.bool_]:
    """Returns kernels in float16 many of whose gradients are zero, others tiny.

    A gradient that is zero throughout may have another reason, unless its neighbours
    are about to vanish as well.
    """
    kernels = step.parameters.kernels
    many_zeros = step["zeros"] >= _LOST
    tiny = step.parameters.in_float16 & kernels & many_zeros & (step.rms < _TINY)
    arriving = tiny & (step["norm"] > 0)
    if arriving.any():
        return tiny
    # All that is left may be the last layer, whose gradients are not zero yet.
    small = kernels & (step["norm"] > 0) & (step.rms < _TINY)
    return tiny if small.any() else arriving


@rule(
    "underflow",
    healthy="few zeros",
    try_first="Use the policy `mixed_float16` with `LossScaleOptimizer` (Keras adds it "
    "when the model has that policy), or `mixed_bfloat16`.",
    excludes=("frozen",),
)
def underflow(step: Snapshot) -> Iterator[Sign]:
    """Gradients or updates are too small for the precision they are kept in."""
    parameters = step.parameters
    lost = lost_in_half(step)
    if step.totals.get("loss_scale", 1.0) == 1.0 and lost.any():
        share = float(np.median(step["zeros"][lost]))
        yield Sign(
            Measured("lost_gradients", share, high=_LOST),
            {
                "share of gradients that became zero": share,
                "root mean square": median(step.rms[lost]),
            },
            parameters.layers_of(lost),
            key="gradients",
            confidence=0.9,
        )
    narrow = parameters.stored_in_half & parameters.kernels
    still = narrow & (step["update_norm"] == 0) & (step["norm"] > 0)
    trains = step.updates and step.totals.get("learning_rate", 1.0) > 0
    if trains and still.any():
        yield Sign(
            Measured("lost_updates", int(still.sum()), high=0.0),
            "weights whose update is lost in rounding",
            parameters.layers_of(still),
            key="updates",
            confidence=0.95,
            healthy="none",
            try_first="Keep weights in float32: a policy that begins with `mixed_`.",
        )
