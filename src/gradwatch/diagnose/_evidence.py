"""The evidence behind a finding: numbers of the run, over steps and along depth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..run import Run
from ._finding import Finding
from ._rules import WINDOW, Snapshot, snapshots
from ._rules import quantities as q

Zones = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class EvidencePanel:
    """One view of a finding.

    Attributes:
        over: The axis of its numbers: "steps", or "depth" at the step at which the
            finding was confirmed.
        label: The numbers, in words.
        quantity: Computes them from a step.
        limited: The limits of what was measured apply to them.
        scale: "log", "share" or "linear".
        addresses: "alone" if only those of the finding are shown; "added" if they are
            shown also where they have no number.
    """

    over: Literal["steps", "depth"]
    label: str
    quantity: Callable[[Snapshot], q.Named]
    limited: bool = True
    scale: Literal["log", "share", "linear"] = "log"
    addresses: Literal["ignored", "alone", "added"] = "ignored"

    def zones(self, finding: Finding) -> Zones:
        """Returns the intervals that hold no number of a healthy training."""
        measured = finding.measured
        if measured is None or not self.limited:
            return ()
        top = 1.0 if self.scale == "share" else math.inf
        zones = ((0.0, measured.low), (measured.high, top))
        return tuple((a, b) for a, b in zones if a is not None and b is not None)

    def numbers(self, step: Snapshot, addresses: tuple[str, ...]) -> q.Named:
        """Returns the numbers of a step that are shown of a finding's addresses."""
        numbers = self.quantity(step)
        if self.addresses == "alone":
            return {n: v for n, v in numbers.items() if within(n, addresses)}
        if self.addresses == "added":
            silent = [a for a in addresses if not any(within(n, (a,)) for n in numbers)]
            return q.in_model_order(step, numbers | dict.fromkeys(silent, math.nan))
        return numbers


@dataclass(frozen=True)
class Evidence:
    """The numbers of one panel.

    Attributes:
        panel: What the numbers are.
        zones: The intervals that hold none of them in a healthy training.
        steps: At which they were recorded; along depth, the one step.
        lines: The numbers of each name, one for each of the steps; NaN where there is
            none, or it was NaN.
    """

    panel: EvidencePanel
    zones: Zones
    steps: NDArray[np.int64]
    lines: dict[str, NDArray[np.float64]]


def evidence_of(finding: Finding, run: Run) -> list[Evidence]:
    """Returns the numbers of a run that show a finding, by what its rule measured.

    They are computed from each step as the rules read it. There are none where the
    quantity has no course to see: rows that never moved were counted once.
    """
    panels = PANELS.get(finding.measured.quantity, ()) if finding.measured else ()
    if not panels or not len(run.steps):
        return []
    confirmed = int(np.argmin(np.abs(run.steps - finding.step)))
    shown = {"steps": slice(None), "depth": slice(confirmed, confirmed + 1)}
    result = []
    for panel in panels:
        own = shown[panel.over]
        chosen = itertools.islice(snapshots(run), own.start, own.stop)
        with np.errstate(all="ignore"):
            numbers = [panel.numbers(step, finding.addresses) for step in chosen]
        names = dict.fromkeys(name for each in numbers for name in each)
        lines = {
            n: np.array([each.get(n, math.nan) for each in numbers]) for n in names
        }
        result.append(Evidence(panel, panel.zones(finding), run.steps[own], lines))
    return result


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


_over_steps = partial(EvidencePanel, "steps")
_along_layers = partial(EvidencePanel, "depth")
_share = partial(_over_steps, scale="share", addresses="alone")


def _total(
    label: str,
    number: Callable[[Snapshot], float],
    name: str = "all gradients",
    **options: Any,
) -> EvidencePanel:
    """Returns a panel of a number of the step as a whole, named by what it is of."""
    return _over_steps(label, lambda step: {name: number(step)}, **options)


def _along_depth(
    label: str, numbers: Callable[[Snapshot], q.Named], *, forward: bool = False
) -> tuple[EvidencePanel, ...]:
    """Returns a trend along depth at one step; and over the steps, that it lasts."""
    ends = "output end ÷ input end" if forward else "input end ÷ output end"
    power = -1 if forward else 1

    def trend(step: Snapshot) -> q.Named:
        return {ends: q.input_over_output(numbers(step)) ** power}

    return (
        _along_layers(label, numbers, limited=False),
        _over_steps(f"{label},\n{ends}", trend),
    )


_NORM = _total("norm of all gradients", q.gradient_norm, limited=False)
_LAYERS = _along_layers("norm of the gradient", q.layer_norms, limited=False)
_ZEROS = _share("share of zeros", q.zero_shares)
_LOSS = _total("loss", q.loss, "loss", limited=False, scale="linear")
_SPREAD = _along_layers("spread of weights × root of inputs", q.weight_spreads)
_RATIOS = _along_layers(
    "update over weight", q.update_ratios, limited=False, addresses="added"
)
_RECENT = f"the last {WINDOW} steps"
_BEGINNING = "over that of the beginning"

_SINGLE = {
    "nonfinite_gradients": _NORM,
    "nonfinite_loss": _NORM,
    "skipped_steps": _total(
        "steps that loss scaling skipped", q.skipped_share, "skipped", scale="share"
    ),
    "missing_gradients": _LAYERS,
    "zero_gradients": _LAYERS,
    "dead_units": _share("share of units without a gradient", q.dead_units),
    "gradient_left": _over_steps(
        _BEGINNING, lambda s: {"gradient": q.gradient_left(s), "loss": q.loss_left(s)}
    ),
    "gradient_growth": _total(f"gradient {_BEGINNING}", q.gradient_growth, "gradient"),
    "gradient_bursts": _total("norm over the usual", q.norm_over_usual),
    "sequence_share": _share(
        "share of elements that hold the gradient", q.sequence_shares
    ),
    "sequence_growth": _over_steps(
        "gradient before over after the layer", q.sequence_growth
    ),
    "slope": _share("mean slope over the steepest", q.slopes),
    "lost_gradients": _ZEROS,
    "lost_updates": replace(_ZEROS, limited=False),
    "clipped_length": _total("what clipping leaves of it", q.left_by_clipping),
    "update_ratio": _total(
        "update over weight", q.usual_update_ratio, "the usual kernel"
    ),
    "weight_growth": _total(
        f"norm of the weights {_BEGINNING}", q.weight_growth, "all weights"
    ),
    "weight_spread": _SPREAD,
    "equal_weights": replace(_SPREAD, limited=False),
    "largest_layer": _along_layers(
        "gradient over that of the second largest", q.layer_dominance
    ),
    "largest_head": _over_steps(
        "gradient × weight, over the quieter head", q.head_dominance
    ),
    "step_agreement": _total("agreement of steps (1 is chance)", q.agreement, _RECENT),
    "frozen_weights": _RATIOS,
    "moving_weights": _RATIOS,
    "loss": _LOSS,
    "softmax_count": _LOSS,
}
_KERNELS = "gradient times weight of kernels"

PANELS: dict[str, tuple[EvidencePanel, ...]] = {
    **{quantity: (panel,) for quantity, panel in _SINGLE.items()},
    "kernels_along_depth": _along_depth(_KERNELS, q.kernel_sensitivity),
    "biases_along_depth": _along_depth("gradient of biases", q.bias_gradients),
    "activations_along_depth": _along_depth(
        "size of the activation", q.activation_sizes, forward=True
    ),
    "dead_layer": (_LAYERS, replace(_ZEROS, limited=False)),
    "idle_rows": (),
}
"""The panels of each quantity that a rule measures."""
