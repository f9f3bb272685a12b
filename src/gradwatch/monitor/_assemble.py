"""Assembles what the taps of a step sent into a record."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..backends import Parts
from ..run import Layout, Record
from ..summarise import BUCKETS, COLUMNS, SUMS, finish, norms
from ._watching import ACTIVATIONS, Watching

_COLUMN = {name: index for index, name in enumerate(COLUMNS)}


@dataclass(frozen=True)
class Labels:
    """Names for the numbers of one step. A later step, traced anew, may have others.

    Attributes:
        weights: The names and sizes of what each tap sends, by key.
        activations: The activations whose values were sent.
        reached: Those whose gradients were.
        order: The watched weights in the order of the model's depth.
    """

    weights: dict[str, tuple[tuple[str, ...], tuple[int, ...]]]
    activations: tuple[str, ...]
    reached: tuple[str, ...]
    order: Collection[str]


class SentRow(NamedTuple):
    """The numbers of one variable or activation at one step."""

    name: str
    kind: str
    size: int
    values: NDArray[np.float64]
    counts: NDArray[Any] | None = None


# on the trainer's thread --------------------------------------------------------------


def labels_of(watching: Watching) -> Labels:
    """Returns the names for what the newest step sent."""
    return Labels(
        {key: lines for tap in watching.taps for key, lines in tap.lines.items()},
        watching.activations,
        watching.reached,
        watching.resolve()[1].weights,
    )


@np.errstate(all="ignore")  # a training that diverges may have made NumPy raise
def totals_of(labels: Labels, sent: dict[str, Parts]) -> dict[str, float]:
    """Returns the numbers of the whole model; a step waits for no others."""
    keys = [key for key in labels.weights if key in sent]
    return _joined([TapTotals(sent[key]).numbers for key in keys])


def headline(totals: dict[str, float]) -> dict[str, float]:
    """Returns the numbers that go into the logs of Keras."""
    numbers = {}
    if "global_norm" in totals:
        numbers["grad_norm"] = totals["global_norm"]
    if totals.get("weight_norm"):
        numbers["update_ratio"] = totals["update_norm"] / totals["weight_norm"]
    return numbers


# on the worker thread -----------------------------------------------------------------


class Assembler:
    """Puts the rows of all taps in the order of the model's depth."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[Any, ...], Layout] = {}

    @np.errstate(all="ignore")
    def record(
        self,
        step: int,
        sent: dict[str, Parts],
        labels: Labels,
        histograms: bool,
        totals: dict[str, float],
    ) -> Record | None:
        """Returns the record of a step, or None if nothing was sent."""
        # Of a weight that was trained twice in one step, the last time counts.
        rows = {
            (row.kind, row.name): row
            for row in _rows(sent, labels, histograms, totals.get("loss_scale", 1.0))
        }
        if not rows:
            return None
        # Weights in the order of the tree, then activations as they ran.
        order = [("weight", name) for name in labels.order]
        for kind in ("activation", "value"):
            order += [(kind, name) for name in labels.activations]
        known = {key: rows[key] for key in order if key in rows}
        ordered = list((known | rows).values())
        counts = None
        if any(row.counts is not None for row in ordered):
            none = np.zeros(BUCKETS, np.uint32)
            counts = np.stack([none if r.counts is None else r.counts for r in ordered])
        values = np.stack([row.values for row in ordered])
        return Record(step, self._layout(ordered), values, counts, totals)

    def _layout(self, rows: list[SentRow]) -> Layout:
        """Returns the same object for the same rows: the file says it once."""
        key = tuple(row[:3] for row in rows)
        if key not in self._layouts:
            names, kinds, sizes = zip(*key, strict=True)
            self._layouts[key] = Layout(names, kinds, sizes)
        return self._layouts[key]


def _rows(
    sent: dict[str, Parts], labels: Labels, histograms: bool, scale: float
) -> Iterator[SentRow]:
    for key, (names, sizes) in labels.weights.items():
        if key in sent:
            values, counts = _weights(sent[key], histograms)
            for name, size, *row in zip(names, sizes, values, counts, strict=True):
                yield SentRow(name, "weight", size, *row)
    parts = sent.get(ACTIVATIONS, {})
    if "values" in parts:
        for name, row in zip(labels.activations, finish(parts["values"]), strict=True):
            yield SentRow(name, "value", 0, row)
    if "gradients" in parts:
        gradients = finish(parts["gradients"], scale)
        for name, row in zip(labels.reached, gradients, strict=True):
            yield SentRow(name, "activation", 0, row)


def _weights(parts: Parts, histograms: bool) -> tuple[NDArray[np.float64], Any]:
    """Returns the values of each weight, and the counts of its histogram or None."""
    totals = TapTotals(parts)
    values = finish(parts["sums"], totals.scale)
    values[:, _COLUMN["weight_norm"]] = totals.weights
    values[:, _COLUMN["update_norm"]] = totals.updates
    if totals.applies:
        values[:, _COLUMN["applied_norm"]] = totals.applied
    if not histograms:
        return values, [None] * len(values)
    return values, parts["counts"].astype(np.uint32)


# on both ------------------------------------------------------------------------------


class TapTotals:
    """The numbers of one tap for the step as a whole."""

    def __init__(self, parts: Parts) -> None:
        self.scale, rate, advanced, updates = (float(n) for n in parts["totals"])
        sums = dict(zip(SUMS, np.asarray(parts["sums"], np.float64).T, strict=True))
        own = np.sqrt(sums["squares"]) * np.exp2(sums["exponent"]) / self.scale
        before = norms(parts["accumulated"]) if "accumulated" in parts else own
        self.applied = norms(parts["applied"]) if "applied" in parts else before
        self.weights, self.updates = norms(parts["weights"]), norms(parts["updates"])
        skipped = advanced == 0
        self.applies = bool(updates) and not skipped
        self.numbers = {
            "global_norm": _together(own, sums),
            "weight_norm": _root(self.weights),
            "update_norm": _root(self.updates),
            "skipped": float(skipped),
            "update": float(self.applies),
            "loss_scale": self.scale,
        }
        if not math.isnan(rate):
            self.numbers["learning_rate"] = rate
        if self.applies:
            self.numbers["applied_norm"] = _together(self.applied, sums)
            # Rounding alone moves a norm by some millionths.
            clipped = bool(np.any(self.applied < before * (1 - 1e-5)))
            self.numbers["clipped"] = float(clipped)


def _root(norms_: NDArray[np.float64]) -> float:
    """Returns the norm of all together; the largest is divided out before squaring."""
    top = float(np.max(np.abs(norms_), initial=0.0))
    if top == 0 or not math.isfinite(top):
        return top
    return top * math.sqrt(float(np.sum((norms_ / top) ** 2)))


def _together(norms_: NDArray[np.float64], sums: dict[str, Any]) -> float:
    """Returns `_root`, but NaN or infinity if any element of any gradient is."""
    if np.any(sums["nan"] > 0):
        return math.nan
    if np.any(sums["posinf"] + sums["neginf"] > 0):
        return math.inf
    return _root(norms_)


def _joined(parts: list[dict[str, float]]) -> dict[str, float]:
    """Adds up several optimizers: norms as norms do, a flag is set if any has it."""
    if len(parts) == 1:
        return parts[0]
    totals: dict[str, float] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = np.array([part[name] for part in parts if name in part])
        totals[name] = _root(values) if name.endswith("norm") else float(values.max())
    return totals
