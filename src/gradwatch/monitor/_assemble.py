"""What the steps sent becomes records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends import Parts
from ..run import Layout, Record
from ..summarise import BUCKETS, COLUMNS, SUMS, finish, norms
from ._watching import ACTIVATIONS, Watching

_COLUMN = {name: place for place, name in enumerate(COLUMNS)}


@dataclass(frozen=True)
class Labels:
    """Whose numbers a step sent: a later step, traced anew, may send those of others.

    Attributes:
        weights: The names and sizes of what each tap sends, by key.
        activations: The activations whose values were sent.
        reached: Those whose gradients were.
    """

    weights: dict[str, tuple[tuple[str, ...], tuple[int, ...]]]
    activations: tuple[str, ...]
    reached: tuple[str, ...]


class Assembler:
    """Puts the lines of all taps of a model in the order of its depth."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._layouts: dict[tuple[Any, ...], Layout] = {}

    @np.errstate(all="ignore")  # who diverges has other worries, and may have raised it
    def totals(self, sent: dict[str, Parts]) -> dict[str, float]:
        """Returns the numbers of the whole model; a step waits for no others."""
        keys = [key for tap in self._watching.taps for key in tap.lines]
        return _joined([Totals(sent[key]).numbers for key in keys if key in sent])

    def labels(self) -> Labels:
        """Returns whose numbers the newest step sent."""
        watching = self._watching
        return Labels(
            {key: it for tap in watching.taps for key, it in tap.lines.items()},
            watching.activations,
            watching.reached,
        )

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
        blocks = [
            _weights(*whose, sent[key], histograms)
            for key, whose in labels.weights.items()
            if key in sent
        ]
        scale = totals.get("loss_scale", 1.0)
        blocks += _activations(sent.get(ACTIVATIONS), labels, scale)
        if not blocks:
            return None
        order = self._order(labels)
        # Of a weight that was trained twice in one step, the last time counts.
        single = {line[:2]: line for block in blocks for line in block.lines}
        lines = sorted(
            single.values(), key=lambda line: order.get(line[:2], len(order))
        )
        rows = np.stack([line[3] for line in lines])
        counts = None
        if any(line[4] is not None for line in lines):
            none = np.zeros(BUCKETS, np.uint32)
            given = [line[4] for line in lines]
            counts = np.stack([none if count is None else count for count in given])
        key = tuple(line[:3] for line in lines)
        layout = self._layouts.get(key)
        if layout is None:
            names, kinds, sizes = zip(*key, strict=True)
            layout = self._layouts[key] = Layout(names, kinds, sizes)
        return Record(step, layout, rows, counts, totals)

    def _order(self, labels: Labels) -> dict[tuple[str, str], int]:
        """Weights in the order of the tree; then activations as they ran."""
        names = self._watching.resolve()[1].weights
        places = [(name, "weight") for name in names]
        for kind in ("activation", "value"):
            places += [(name, kind) for name in labels.activations]
        return {place: number for number, place in enumerate(places)}


class _Block:
    """The lines of one tap."""

    def __init__(
        self,
        kind: str,
        names: tuple[str, ...],
        rows: NDArray[np.float64],
        sizes: tuple[int, ...] | None = None,
        counts: NDArray[Any] | None = None,
    ) -> None:
        sizes = sizes or (0,) * len(names)
        every = counts if counts is not None else [None] * len(names)
        self.lines = [
            (name, kind, size, row, count)
            for name, size, row, count in zip(names, sizes, rows, every, strict=True)
        ]


class Totals:
    """What one tap says of the step as a whole."""

    def __init__(self, parts: Parts) -> None:
        self.scale, rate, advanced, updates = (float(n) for n in parts["totals"])
        sums = dict(zip(SUMS, np.asarray(parts["sums"], np.float64).T, strict=True))
        with np.errstate(all="ignore"):
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


def headline(totals: dict[str, float]) -> dict[str, float]:
    """Returns the numbers that go into the logs of Keras."""
    found = {}
    if "global_norm" in totals:
        found["grad_norm"] = totals["global_norm"]
    if totals.get("weight_norm"):
        found["update_ratio"] = totals["update_norm"] / totals["weight_norm"]
    return found


def _weights(
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    parts: Parts,
    histograms: bool,
) -> _Block:
    totals = Totals(parts)
    rows = finish(parts["sums"], totals.scale)
    rows[:, _COLUMN["weight_norm"]] = totals.weights
    rows[:, _COLUMN["update_norm"]] = totals.updates
    if totals.applies:
        rows[:, _COLUMN["applied_norm"]] = totals.applied
    counts = parts["counts"].astype(np.uint32) if histograms else None
    return _Block("weight", names, rows, sizes, counts)


def _activations(parts: Parts | None, labels: Labels, scale: float) -> list[_Block]:
    if parts is None:
        return []
    blocks = [_Block("value", labels.activations, finish(parts["values"]))]
    if "gradients" in parts:
        rows = finish(parts["gradients"], scale)
        blocks.append(_Block("activation", labels.reached, rows))
    return blocks


def _root(norms_: NDArray[np.float64]) -> float:
    """Returns the norm of all together; the largest is divided out before squaring."""
    top = float(np.max(np.abs(norms_), initial=0.0))
    if top == 0 or not math.isfinite(top):
        return top
    return top * math.sqrt(float(np.sum((norms_ / top) ** 2)))


def _together(norms_: NDArray[np.float64], sums: dict[str, Any]) -> float:
    """As `_root`, but NaN or infinite if any element of any gradient is."""
    if np.any(sums["nan"] > 0):
        return math.nan
    if np.any(sums["posinf"] + sums["neginf"] > 0):
        return math.inf
    return _root(norms_)


def _joined(given: list[dict[str, float]]) -> dict[str, float]:
    """Several optimizers add up: norms as norms do, flags if any has it."""
    if len(given) == 1:
        return given[0]
    totals: dict[str, float] = {}
    for name in dict.fromkeys(name for one in given for name in one):
        values = np.array([one[name] for one in given if name in one])
        totals[name] = _root(values) if name.endswith("norm") else float(values.max())
    return totals
