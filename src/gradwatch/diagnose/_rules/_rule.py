"""What a rule is: it looks at a step and says which signs it sees."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .._measured import Measured
from ._sight import Sight

PATIENCE = 5
"""So many recorded steps in a row must show a sign before it is a finding."""


@dataclass(frozen=True)
class Sign:
    """What one step shows.

    Attributes:
        measured: The number on which the rule decided, and its limits.
        evidence: The numbers, by what they are.
        addresses: Where.
        key: Tells apart what is found independently, such as one layer and another.
        confidence: How sure it is, if it lasts.
        healthy: What the numbers would be; default: the rule's.
        try_first: What to do; default: the rule's.
        certain: Whether one step is enough.
    """

    measured: Measured
    evidence: Mapping[str, float | int | str]
    addresses: tuple[str, ...] = ()
    key: str = ""
    confidence: float = 0.9
    healthy: str | None = None
    try_first: str | None = None
    certain: bool = False


@dataclass
class Rule:
    """Looks for one symptom.

    Attributes:
        symptom: Its name.
        healthy: What a healthy training shows.
        try_first: What to do about it.
        excludes: What it might be taken for: names of `NOT`, which are tried.
        follows: Symptoms that bring this one about: where one of them was found, it is
            no finding of its own.
        patience: How many recorded steps in a row must show it.
        single: Whether one step alone can show it (there is no course of time).
    """

    symptom: str = ""
    healthy: str = ""
    try_first: str = ""
    excludes: tuple[str, ...] = ()
    follows: frozenset[str] = frozenset()
    patience: int = PATIENCE
    single: bool = False

    def look(self, sight: Sight) -> Iterator[Sign]:
        """Yields what this step shows."""
        raise NotImplementedError


def sure(decades: float) -> float:
    """Returns how sure a rule is that sees its limit exceeded by so many decades."""
    return float(np.clip(0.75 + 0.2 * decades, 0.0, 0.99))


def decades(number: float) -> float:
    """Returns log10, of what is zero the lowest there is."""
    return math.log10(number) if number > 0 else -45.0


def _frozen(sight: Sight) -> str | None:
    moved = np.nan_to_num(sight.u) > 0
    return "frozen (the weights move)" if moved.any() else None


def _clipped(sight: Sight) -> str | None:
    seen = sight.past.updates("clipped")
    if len(seen) and not seen.any():
        return "clipped (no update was)"
    return None


def _converged(sight: Sight) -> str | None:
    loss = sight.past.loss
    if loss.known and not loss.learnt:
        return f"converged (the loss went from {loss.first:.3g} to {loss.recent:.3g})"
    return None


def _warm(sight: Sight) -> str | None:
    rates = sight.past.last("learning_rate", 8)
    if len(rates) > 1 and rates[-1] <= rates[0]:
        return "a warm-up (the learning rate does not rise)"
    return None


def _skipped(sight: Sight) -> str | None:
    if "skipped" in sight.totals and not sight.skipped:
        return "a step that loss scaling skipped"
    return None


NOT = {
    "frozen": _frozen,
    "clipped": _clipped,
    "converged": _converged,
    "warm-up": _warm,
    "skipped": _skipped,
}
"""What a symptom might be taken for: says why it is not, or nothing."""
