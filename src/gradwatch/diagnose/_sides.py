"""What of a run shows a symptom, and from which number on it is one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from . import _looks as looks
from ._finding import Finding
from ._looks import Look, Numbers
from ._rules import Sight
from ._rules._along_depth import _ALONE, _EXPLODED, _HEADS, _VANISHED
from ._rules._along_depth import _GROWN as _GROWN_FORWARD
from ._rules._beginnings import _FLAT, _HIGH, _LOW
from ._rules._broken import _HALF
from ._rules._in_time import _BLOWN_UP, _CHANCE, _FADED, _GROWN, _PART, _SPIKE
from ._rules._updates import _BLOWN, _LARGE, _LOST, _SHRUNK, _SMALL

Zones = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Side:
    """One thing to see of a finding.

    Attributes:
        over: What its numbers stand along: "steps", or "depth" at the step at which it
            was sure.
        label: What they are.
        look: How they are had of a step.
        sick: Where a healthy training has none of them, from and to.
        scale: "log", "share" or "linear".
    """

    over: Literal["steps", "depth"]
    label: str
    look: Look
    sick: Zones = ()
    scale: Literal["log", "share", "linear"] = "log"


def sides_of(finding: Finding) -> tuple[Side, ...]:
    """Returns what there is to see of a finding, by its symptom and its evidence.

    Nothing where there is no course to see: rows that never moved were counted once.
    """
    key = next(iter(finding.evidence), "")
    if finding.symptom in ("vanishing", "exploding") and key.endswith(" end"):
        return _along_depth(finding.symptom, key)
    if finding.symptom in ("frozen", "not-frozen"):
        moves = _with_places(looks.ratios, finding.addresses)
        return (Side("depth", "update over weight", moves),)
    if finding.symptom == "dead-layer":
        share = Side("steps", "share of zeros", looks.zeros, (), "share")
        return (*_SIDES["unreached"], _only(share, finding.addresses))
    side = _other(finding.symptom, key)
    found = _SIDES.get(finding.symptom, ()) if side is None else (side,)
    if finding.symptom in _BY_ADDRESS:
        return tuple(_only(one, finding.addresses) for one in found)
    return found


def _above(limit: float) -> Zones:
    return ((limit, math.inf),)


def _below(limit: float) -> Zones:
    return ((0.0, limit),)


_RATIO = "update over weight"
_BY_ADDRESS = {"vanishing-time", "dead-units", "saturated", "underflow"}
_SIDES: dict[str, tuple[Side, ...]] = {
    symptom: (Side(over, label, look, sick, scale),)  # type: ignore[arg-type]
    for symptom, over, label, look, sick, scale in (
        ("fading", "steps", "over that of the beginning", looks.faded,
         _below(_FADED), "log"),
        ("nonfinite", "steps", "norm of all gradients", looks.norm, (), "log"),
        ("vanishing-time", "steps", "share of elements that hold the gradient",
         looks.in_time, _below(_PART), "share"),
        ("dead-units", "steps", "share of units without a gradient", looks.dead,
         ((_HALF, 1.0),), "share"),
        ("saturated", "steps", "mean slope over the steepest", looks.slopes,
         _below(_FLAT), "share"),
        ("unreached", "depth", "norm of the gradient", looks.layer_norms, (), "log"),
        ("underflow", "steps", "share of zeros", looks.zeros, ((_LOST, 1.0),), "share"),
        ("clipping", "steps", "what clipping leaves of it", looks.left,
         _below(_SHRUNK), "log"),
        ("small-updates", "steps", _RATIO, looks.usual_ratio, _below(_SMALL), "log"),
        ("large-updates", "steps", _RATIO, looks.usual_ratio, _above(_LARGE), "log"),
        ("initialisation", "depth", "spread of weights × root of inputs", looks.gains,
         (*_below(_LOW), *_above(_HIGH)), "log"),
        ("dominating-layer", "depth", "gradient over that of the second largest",
         looks.by_layer, _above(_ALONE), "log"),
        ("dominating-head", "steps", "gradient × weight, over the quieter head",
         looks.by_head, _above(_HEADS), "log"),
        ("noise", "steps", "agreement of steps (1 is chance)", looks.agreement,
         _below(_CHANCE), "log"),
        ("stuck-loss", "steps", "loss", looks.loss, (), "linear"),
        ("exploding", "steps", "gradient over that of the beginning", looks.grown,
         _above(_GROWN), "log"),
    )
}  # fmt: skip


def _other(symptom: str, key: str) -> Side | None:
    """Returns what shows a symptom that can be seen in another way, too."""
    if symptom == "nonfinite" and "skipped" in key:
        return Side("steps", key, looks.skipped, ((_HALF, 1.0),), "share")
    if symptom == "large-updates" and key.startswith("norm"):
        label = "norm of the weights over that of the beginning"
        return Side("steps", label, looks.weights_grown, _above(_BLOWN))
    if symptom == "exploding" and key.startswith("bursts"):
        return Side("steps", "norm over the usual", looks.bursts, _above(_SPIKE))
    if symptom == "exploding" and key.startswith("gradient before"):
        label = "gradient before over after the layer"
        return Side("steps", label, looks.before_after, _above(_BLOWN_UP))
    return None


def _along_depth(symptom: str, key: str) -> tuple[Side, ...]:
    """A trend along depth is seen at one step; that it lasts, over the steps."""
    if key.startswith("activations"):
        ends, sick = "output end ÷ input end", _above(10.0**_GROWN_FORWARD)
        label, numbers = "size of the activation", looks.sizes

        def trend(sight: Sight) -> Numbers:
            return {ends: 1 / looks.fall(numbers(sight))}
    else:
        ends, label = "input end ÷ output end", key.partition(",")[0]
        numbers = looks.bias_rms if "biases" in key else looks.pull
        sick = _above(10.0**_EXPLODED)
        if symptom == "vanishing":
            sick = _below(10.0**-_VANISHED)

        def trend(sight: Sight) -> Numbers:
            return {ends: looks.fall(numbers(sight))}

    return (
        Side("depth", label, numbers),
        Side("steps", f"{label},\n{ends}", trend, sick),
    )


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


def _only(side: Side, addresses: tuple[str, ...]) -> Side:
    """Returns the side with the numbers of some places alone."""

    def look(sight: Sight) -> Numbers:
        return {n: v for n, v in side.look(sight).items() if within(n, addresses)}

    return Side(side.over, side.label, look, side.sick, side.scale)


def _with_places(look: Look, addresses: tuple[str, ...]) -> Look:
    """Returns the look with places that have no number of their own, too."""

    def both(sight: Sight) -> Numbers:
        found = look(sight)
        silent = [a for a in addresses if not any(within(n, (a,)) for n in found)]
        return looks.along_depth(sight, found | dict.fromkeys(silent, math.nan))

    return both
