"""The panels of a finding's picture: which numbers of a run show what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from . import _looks as looks
from ._finding import Finding
from ._looks import Look, Numbers
from ._rules import Sight

Zones = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class EvidencePanel:
    """One view of a finding.

    Attributes:
        over: The axis of its numbers: "steps", or "depth" at the step at which the
            finding was confirmed.
        label: The numbers, in words.
        look: Computes them from a step.
        limited: Whether the limits of what was measured apply to them.
        scale: "log", "share" or "linear".
        addresses: Whether those of the finding are shown "alone", or "added" where they
            have no number of their own.
    """

    over: Literal["steps", "depth"]
    label: str
    look: Look
    limited: bool = True
    scale: Literal["log", "share", "linear"] = "log"
    addresses: Literal["ignored", "alone", "added"] = "ignored"


def panels_of(finding: Finding) -> tuple[EvidencePanel, ...]:
    """Returns the panels of a finding, by the quantity that its rule measured.

    There are none where the quantity has no course to see: rows that never moved were
    counted once.
    """
    if finding.measured is None:
        return ()
    panels = PANELS.get(finding.measured.quantity, ())
    return tuple(_chosen(panel, finding.addresses) for panel in panels)


def zones_of(panel: EvidencePanel, finding: Finding) -> Zones:
    """Returns the intervals that hold no number of a healthy training."""
    measured = finding.measured
    if measured is None or not panel.limited:
        return ()
    below = () if measured.low is None else ((0.0, measured.low),)
    top = 1.0 if panel.scale == "share" else math.inf
    above = () if measured.high is None else ((measured.high, top),)
    return (*below, *above)


def _along_depth(label: str, numbers: Look) -> tuple[EvidencePanel, ...]:
    """A trend along depth is seen at one step; that it lasts, over the steps."""
    ends = "input end ÷ output end"

    def trend(sight: Sight) -> Numbers:
        return {ends: looks.fall(numbers(sight))}

    return (
        EvidencePanel("depth", label, numbers, limited=False),
        EvidencePanel("steps", f"{label},\n{ends}", trend),
    )


def _forward() -> tuple[EvidencePanel, ...]:
    """As `_along_depth`, but of activations, which grow the other way."""
    ends, label = "output end ÷ input end", "size of the activation"

    def trend(sight: Sight) -> Numbers:
        return {ends: 1 / looks.fall(looks.sizes(sight))}

    return (
        EvidencePanel("depth", label, looks.sizes, limited=False),
        EvidencePanel("steps", f"{label},\n{ends}", trend),
    )


_NORM = EvidencePanel("steps", "norm of all gradients", looks.norm, limited=False)
_LAYERS = EvidencePanel("depth", "norm of the gradient", looks.layer_norms, False)
_ZEROS = EvidencePanel("steps", "share of zeros", looks.zeros, True, "share", "alone")
_LOSS = EvidencePanel("steps", "loss", looks.loss, False, "linear")
_SPREAD = EvidencePanel("depth", "spread of weights × root of inputs", looks.gains)
_MOVES = EvidencePanel(
    "depth", "update over weight", looks.ratios, limited=False, addresses="added"
)

PANELS: dict[str, tuple[EvidencePanel, ...]] = {
    "kernels_along_depth": _along_depth("gradient times weight of kernels", looks.pull),
    "biases_along_depth": _along_depth("gradient of biases", looks.bias_rms),
    "activations_along_depth": _forward(),
    "nonfinite_gradients": (_NORM,),
    "nonfinite_loss": (_NORM,),
    "skipped_steps": (
        EvidencePanel(
            "steps", "steps that loss scaling skipped", looks.skipped, scale="share"
        ),
    ),
    "missing_gradients": (_LAYERS,),
    "zero_gradients": (_LAYERS,),
    "dead_layer": (_LAYERS, replace(_ZEROS, limited=False)),
    "dead_units": (
        EvidencePanel(
            "steps",
            "share of units without a gradient",
            looks.dead,
            scale="share",
            addresses="alone",
        ),
    ),
    "gradient_left": (
        EvidencePanel("steps", "over that of the beginning", looks.faded),
    ),
    "gradient_growth": (
        EvidencePanel("steps", "gradient over that of the beginning", looks.grown),
    ),
    "gradient_bursts": (EvidencePanel("steps", "norm over the usual", looks.bursts),),
    "sequence_share": (
        EvidencePanel(
            "steps",
            "share of elements that hold the gradient",
            looks.in_time,
            scale="share",
            addresses="alone",
        ),
    ),
    "sequence_growth": (
        EvidencePanel(
            "steps", "gradient before over after the layer", looks.before_after
        ),
    ),
    "slope": (
        EvidencePanel(
            "steps",
            "mean slope over the steepest",
            looks.slopes,
            scale="share",
            addresses="alone",
        ),
    ),
    "lost_gradients": (_ZEROS,),
    "lost_updates": (replace(_ZEROS, limited=False),),
    "clipped_length": (
        EvidencePanel("steps", "what clipping leaves of it", looks.left),
    ),
    "update_ratio": (EvidencePanel("steps", "update over weight", looks.usual_ratio),),
    "weight_growth": (
        EvidencePanel(
            "steps",
            "norm of the weights over that of the beginning",
            looks.weights_grown,
        ),
    ),
    "weight_spread": (_SPREAD,),
    "equal_weights": (replace(_SPREAD, limited=False),),
    "largest_layer": (
        EvidencePanel(
            "depth", "gradient over that of the second largest", looks.by_layer
        ),
    ),
    "largest_head": (
        EvidencePanel(
            "steps", "gradient × weight, over the quieter head", looks.by_head
        ),
    ),
    "step_agreement": (
        EvidencePanel("steps", "agreement of steps (1 is chance)", looks.agreement),
    ),
    "frozen_weights": (_MOVES,),
    "moving_weights": (_MOVES,),
    "idle_rows": (),
    "loss": (_LOSS,),
    "softmax_count": (_LOSS,),
}
"""The panels of each quantity that a rule measures."""


def within(name: str, addresses: Sequence[str]) -> bool:
    """Returns whether a name is one of the addresses, or belongs to one.

    A weight belongs to its layer, also where the n-th call of that is meant.

    Example:
    >>> within("dense/kernel", ("dense@2",)), within("dense_1/kernel", ("dense",))
    (True, False)
    """
    layers = [address.partition("@")[0] for address in addresses]
    calls = tuple(f"{address}@" for address in addresses)
    below = tuple(f"{layer}/" for layer in layers)
    return name in addresses or name.startswith(below + calls)


def _chosen(panel: EvidencePanel, addresses: tuple[str, ...]) -> EvidencePanel:
    """Returns the panel with the numbers that it shows of a finding's addresses."""

    def alone(sight: Sight) -> Numbers:
        return {n: v for n, v in panel.look(sight).items() if within(n, addresses)}

    def added(sight: Sight) -> Numbers:
        numbers = panel.look(sight)
        silent = [a for a in addresses if not any(within(n, (a,)) for n in numbers)]
        return looks.along_depth(sight, numbers | dict.fromkeys(silent, math.nan))

    looked = {"ignored": panel.look, "alone": alone, "added": added}
    return replace(panel, look=looked[panel.addresses])
