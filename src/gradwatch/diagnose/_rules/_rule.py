"""A rule reads a step and yields the signs of its symptom."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._measured import Measured
from ._snapshot import Snapshot

PATIENCE = 5
"""Number of recorded steps in a row that must show a sign to make it a finding."""


@dataclass(frozen=True)
class Sign:
    """A sign of a symptom at one step.

    Attributes:
        measured: The number on which the rule decided, and its limits.
        evidence: Numbers by what they are; or the words for what was measured, if that
            is the only one.
        addresses: The layers or weights concerned.
        key: Tells apart what is found independently, such as one layer and another.
        confidence: From 0 to 1; default: by how far the value is beyond its limit.
        healthy: What is healthy; default: the rule's.
        try_first: What to try first; default: the rule's.
    """

    measured: Measured
    evidence: str | Mapping[str, float | int | str]
    addresses: tuple[str, ...] = ()
    key: str = ""
    confidence: float | None = None
    healthy: str | None = None
    try_first: str | None = None


Look = Callable[[Snapshot], Iterator[Sign]]


@dataclass(frozen=True)
class Rule:
    """A function that looks for one symptom, and what is said of it.

    Attributes:
        symptom: Its name.
        look: Yields the signs that a step shows.
        healthy: What a healthy training shows.
        try_first: What to try first.
        excludes: What the symptom might be taken for, by the names of `excluded`.
        explained_by: Symptoms that bring this one about: where one of them was found,
            it is no finding of its own.
        patience: Number of recorded steps in a row that must show it.
        at_start: It is looked for at the first step only, and has no end.
    """

    symptom: str
    look: Look
    healthy: str
    try_first: str
    excludes: tuple[str, ...] = ()
    explained_by: tuple[str, ...] = ()
    patience: int = PATIENCE
    at_start: bool = False


def rule(symptom: str, **options: Any) -> Callable[[Look], Rule]:
    """Makes a rule of the function that looks for its symptom."""
    return lambda look: Rule(symptom, look, **options)


def signs_beyond(
    quantity: str, label: str, numbers: Mapping[str, float], **limits: float
) -> Iterator[Sign]:
    """Yields a sign for each address whose number is beyond `low` or `high`."""
    low, high = limits.get("low", -math.inf), limits.get("high", math.inf)
    for address, number in numbers.items():
        if number < low or high < number < math.inf:
            measured = Measured(quantity, number, **limits)
            yield Sign(measured, label, (address,), key=address)


def confidence(measured: Measured) -> float:
    """Returns how sure a rule is, by the decades between a value and its limit."""
    value, beyond = measured.value or 0.0, 0.0
    if measured.high is not None:
        beyond = value / measured.high
    if measured.low is not None:
        beyond = max(beyond, measured.low / value if value else math.inf)
    decades = math.log10(beyond) if beyond > 0 else -math.inf
    return float(np.clip(0.75 + 0.2 * decades, 0.0, 0.99))


def excluded(rule: Rule, step: Snapshot) -> tuple[str, ...]:
    """Returns what a symptom might be taken for, and is not, with the reason."""
    loss, rates = step.history.loss, step.history.newest("learning_rate", 8)
    clipped = step.history.newest("clipped", updates=True)
    reasons = {
        "frozen": ("the weights move", np.nan_to_num(step["update_norm"]).any()),
        "clipped": ("no update was", len(clipped) and not clipped.any()),
        "converged": (
            f"the loss went from {loss.first:.3g} to {loss.recent:.3g}",
            loss.known and not loss.learnt,
        ),
        "a warm-up": (
            "the learning rate does not rise",
            len(rates) > 1 and rates[-1] <= rates[0],
        ),
        "a skipped step": (
            "loss scaling let it pass",
            "skipped" in step.totals and not step.skipped,
        ),
    }
    chosen = ((name, *reasons[name]) for name in rule.excludes)
    return tuple(f"{name} ({reason})" for name, reason, holds in chosen if holds)
