"""Assembles what the taps of a step sent into a record."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends import Parts
from ..run import Layout, Record, standard_error_of
from ..summarise import BUCKETS, COLUMNS, blank
from ._watching import ACTIVATIONS, Watching

MEASURED = COLUMNS.index("weight_norm")
"""Number of columns that are of the gradient itself, or of an activation."""
EXACT = 65_536
"""Maximum size of a weight whose own norm and update are exact, and not estimates."""
_MOVES = ("weight_norm", "update_norm")
_ESTIMATED = (*COLUMNS, *map(standard_error_of, _MOVES))


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
def headline(labels: Labels, sent: dict[str, Parts]) -> dict[str, float]:
    """Returns the numbers for the logs of Keras; a step waits for no others."""
    taps = [sent[key] for key in labels.weights if key in sent]
    if not taps:
        return {}
    rows, moves = (
        taps[0][name] if len(taps) == 1 else np.concatenate([tap[name] for tap in taps])
        for name in ("rows", "moves")
    )
    numbers = {"grad_norm": _together(rows[:, 0], rows[:, MEASURED - 3 :])}
    if before := _root(moves[:, 0]):
        numbers["update_ratio"] = _root(moves[:, 2]) / before
    return numbers


# on the worker thread -----------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The order of the rows of a step.

    Attributes:
        layout: The names of the record's rows and columns.
        order: Which of the rows that were sent stands where.
        exact: Rows of weights that are measured whole, so that nothing is estimated.
    """

    layout: Layout
    order: NDArray[np.intp]
    exact: NDArray[np.intp]


class Assembler:
    """Puts the rows of all taps in the order of the model's depth."""

    def __init__(self) -> None:
        # Equal layouts are one object, which the file says once.
        self._plans: dict[tuple[Any, ...], Plan] = {}

    @np.errstate(all="ignore")
    def record(
        self,
        step: int,
        sent: dict[str, Parts],
        labels: Labels,
        histograms: bool,
        loss: float | None,
    ) -> Record | None:
        """Returns the record of a step, or None if nothing was sent."""
        taps = {key: sent[key] for key in labels.weights if key in sent}
        tap_totals = [TapTotals(parts) for parts in taps.values()]
        plan = self._plan(labels, tuple(taps), tuple(sent.get(ACTIVATIONS, ())))
        if not len(plan.layout):
            return None
        width = len(plan.layout.columns)
        rows = [_weights(totals, width) for totals in tap_totals]
        counts = [parts["counts"] for parts in taps.values()] if histograms else []
        for part in sent.get(ACTIVATIONS, {}).values():
            rows.append(blank((len(part), width)))
            rows[-1][:, :MEASURED] = part
            counts.append(np.zeros((len(part), BUCKETS)))
        together = None
        if histograms and taps:
            together = np.concatenate(counts)[plan.order].astype(np.uint32)
        numbers = np.concatenate(rows)[plan.order]
        numbers[plan.exact, len(COLUMNS) :] = blank(1)
        totals = _joined([each.numbers for each in tap_totals])
        if loss is not None:
            totals["loss"] = loss
        return Record(step, plan.layout, numbers, together, totals)

    def _plan(
        self, labels: Labels, taps: tuple[str, ...], kinds: tuple[str, ...]
    ) -> Plan:
        lines = tuple(labels.weights[tap] for tap in taps)
        key = (lines, labels.activations, labels.reached, kinds)
        if key not in self._plans:
            self._plans[key] = _planned(labels, taps, kinds)
        return self._plans[key]


def _planned(labels: Labels, taps: tuple[str, ...], kinds: tuple[str, ...]) -> Plan:
    sent = [
        ("weight", name, size)
        for key in taps
        for name, size in zip(*labels.weights[key], strict=True)
    ]
    of_activations = {
        "values": ("value", labels.activations),
        "gradients": ("activation", labels.reached),
    }
    for part in kinds:
        kind, names = of_activations[part]
        sent += [(kind, name, 0) for name in names]
    # Of a weight that was trained twice in one step, the last time counts.
    index_of = {row[:2]: index for index, row in enumerate(sent)}
    # Weights in the order of the tree, then activations as they ran.
    wanted = [("weight", name) for name in labels.order]
    for kind in ("activation", "value"):
        wanted += [(kind, name) for name in labels.activations]
    known = [index_of[row] for row in wanted if row in index_of]
    indices = list(dict.fromkeys([*known, *index_of.values()]))
    rows = [sent[index] for index in indices]
    columns = _ESTIMATED if any(size > EXACT for *_, size in rows) else COLUMNS
    kinds_, names_, sizes = zip(*rows, strict=True) if rows else ((), (), ())
    layout = Layout(names_, kinds_, sizes, columns)
    exact = np.flatnonzero(np.array(sizes) <= EXACT)
    return Plan(layout, np.array(indices, np.intp), exact)


def _weights(totals: TapTotals, width: int) -> NDArray[np.float64]:
    """Returns the columns of each weight; those that were not measured are blank."""
    parts = totals.parts
    values = blank((len(parts["rows"]), width))
    values[:, :MEASURED] = parts["rows"]
    for index, name in enumerate(_MOVES):
        norm, error = parts["moves"][:, 2 * index : 2 * index + 2].T
        values[:, COLUMNS.index(name)] = norm
        if width > len(COLUMNS):
            values[:, len(COLUMNS) + index] = error
    if totals.applies:
        values[:, COLUMNS.index("applied_norm")] = totals.applied
    return values


class TapTotals:
    """The numbers of one tap for the step as a whole."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        scale, rate, advanced, updates = (float(n) for n in parts["totals"])
        rows, moves = parts["rows"], parts["moves"]
        own, odd = rows[:, 0], rows[:, MEASURED - 3 :]
        before = parts.get("accumulated", own)
        self.applied = parts.get("applied", before)
        skipped = advanced == 0
        self.applies = bool(updates) and not skipped
        self.numbers = {
            "global_norm": _together(own, odd),
            "weight_norm": _root(moves[:, 0]),
            "update_norm": _root(moves[:, 2]),
            "skipped": float(skipped),
            "update": float(self.applies),
            "loss_scale": scale,
        }
        if not math.isnan(rate):
            self.numbers["learning_rate"] = rate
        if self.applies:
            self.numbers["applied_norm"] = _together(self.applied, odd)
            # Rounding alone moves a norm by some millionths.
            clipped = bool(np.any(self.applied < before * (1 - 1e-5)))
            self.numbers["clipped"] = float(clipped)


def _root(norms: NDArray[np.float64]) -> float:
    """Returns the norm of all together; the largest is divided out before squaring."""
    top = float(np.max(np.abs(norms), initial=0.0))
    if top == 0 or not math.isfinite(top):
        return top
    return top * math.sqrt(float(np.sum((norms / top) ** 2)))


def _together(norms: NDArray[np.float64], odd: NDArray[np.float64]) -> float:
    """Returns `_root`, but NaN or infinity if any element of any gradient is.

    Args:
        norms: Of the finite elements of each gradient.
        odd: How many of its elements are NaN, plus and minus infinity.
    """
    nan, *infinite = odd.sum(axis=0)
    if nan > 0:
        return math.nan
    return math.inf if any(infinite) else _root(norms)


def _joined(parts: list[dict[str, float]]) -> dict[str, float]:
    """Adds up several optimizers: norms as norms do, a flag is set if any has it."""
    if len(parts) == 1:
        return parts[0]
    totals: dict[str, float] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = np.array([part[name] for part in parts if name in part])
        totals[name] = _root(values) if name.endswith("norm") else float(values.max())
    return totals
