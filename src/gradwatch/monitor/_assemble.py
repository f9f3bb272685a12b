"""Assembles what the taps of steps sent into records.

The trainer's thread only notes what was sent (`Sent`), and computes the two numbers
that go into the logs. The worker assembles many steps at once: what steps of one kind
sent is stacked to arrays `[steps, ...]`, and each number is computed for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from .._keras import loss_tracker
from ..backends import Parts
from ..run import Layout, Record, measured, standard_error_of
from ..summarise import BUCKETS, COLUMNS, blank, finished, is_blank
from ._watching import ACTIVATIONS, Labels

Numbers = NDArray[np.float64]

MEASURED = COLUMNS.index("weight_norm")
"""Number of columns that are of the gradient itself, or of an activation."""
EXACT = 65_536
"""Maximum size of a weight whose own norm and update are exact, and not estimates."""
_ODD = slice(MEASURED - 3, MEASURED)
"""Columns that count the elements which are NaN, plus and minus infinity."""
_MOVES = ("weight_norm", "update_norm")
_ESTIMATED = (*COLUMNS, *map(standard_error_of, _MOVES))


@dataclass(slots=True)  # not frozen, which takes four times as long to make
class Sent:
    """Numbers that one step sent, on their way to the worker.

    Attributes:
        step: The number of the step.
        parts: Arrays by key and name.
        labels: The names for them.
        histograms: Whether the step holds histograms.
        loss: The loss in its logs, as Keras gives it; None if there is none.
        batches: Number of batches of its epoch so far.
    """

    step: int
    parts: dict[str, Parts]
    labels: Labels
    histograms: bool
    loss: Any
    batches: int

    @property
    def kind(self) -> tuple[Any, ...]:
        """Equal for steps that can be assembled together."""
        keys = [(key, *parts) for key, parts in self.parts.items()]
        return id(self.labels), self.histograms, keys


# on the trainer's thread --------------------------------------------------------------


def headline(labels: Labels, sent: dict[str, Parts]) -> dict[str, float]:
    """Returns the numbers for the logs of Keras; a step waits for no others."""
    taps = [_headline_parts(sent[key]) for key in labels.weights if key in sent]
    if not taps:
        return {}
    rows, moves = taps[0]
    if len(taps) > 1:
        rows, moves = (np.concatenate(parts) for parts in zip(*taps, strict=True))
    norms, weights, updates = rows[:, 0], moves[:, 0], moves[:, 2]
    square = float(norms @ norms)
    if _TINY < square < _HUGE and not rows[:, _ODD].any():
        norm = math.sqrt(square)
    else:
        with np.errstate(all="ignore"):  # NumPy may have been made to raise
            norm = float(_together(rows))
    numbers = {"grad_norm": norm}
    if before := math.hypot(*weights.tolist()):
        numbers["update_ratio"] = math.hypot(*updates.tolist()) / before
    return numbers


def _headline_parts(parts: Parts) -> tuple[Numbers, Numbers]:
    """Returns the rows and the moves; in float64 they are as the native sweep sent."""
    rows, moves = parts["rows"], parts["moves"]
    if getattr(rows, "dtype", None) == np.float64 and rows.shape[-1] == MEASURED:
        return rows, moves
    both = finished({"rows": rows, "moves": moves})
    return both["rows"], both["moves"]


_TINY, _HUGE = 1e-290, 1e290
"""Between these, no square of a number that matters was rounded to 0 or infinity."""


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

    def records(
        self, steps: Sequence[Sent], losses: Sequence[float | None]
    ) -> Iterator[Record]:
        """Yields the record of each step; none of one that sent nothing."""
        pairs = zip(steps, losses, strict=True)
        for _, alike in groupby(pairs, key=lambda pair: pair[0].kind):
            yield from self._assembled(*zip(*alike, strict=True))

    @np.errstate(all="ignore")
    def _assembled(
        self, steps: Sequence[Sent], losses: Sequence[float | None]
    ) -> list[Record]:
        """Returns the records of steps of one kind."""
        first, labels = steps[0], steps[0].labels
        sent = {
            key: finished(
                {
                    name: np.stack(
                        [np.asarray(step.parts[key][name]) for step in steps]
                    )
                    for name in parts
                }
            )
            for key, parts in first.parts.items()
        }
        taps = {key: sent[key] for key in labels.weights if key in sent}
        plan = self._plan(labels, tuple(taps), tuple(sent.get(ACTIVATIONS, ())))
        if not len(plan.layout):
            return []
        width = len(plan.layout.columns)
        tap_totals = [TapTotals(parts) for parts in taps.values()]
        rows = [_weights(totals, width) for totals in tap_totals]
        counts = (
            [parts["counts"] for parts in taps.values()] if first.histograms else []
        )
        for part in sent.get(ACTIVATIONS, {}).values():
            rows.append(blank((*part.shape[:2], width)))
            rows[-1][..., :MEASURED] = part
            counts.append(np.zeros((*part.shape[:2], BUCKETS)))
        each: Any = [None] * len(steps)
        if first.histograms and taps:
            each = np.concatenate(counts, axis=1)[:, plan.order].astype(np.uint32)
        numbers = np.concatenate(rows, axis=1)[:, plan.order]
        numbers[:, plan.exact, len(COLUMNS) :] = blank(1)
        totals = _joined([each.numbers for each in tap_totals])
        totals["loss"] = blank(len(steps))
        for at, loss in enumerate(losses):
            if loss is not None:
                totals["loss"][at] = loss
        table = np.array([*totals.values()]).T
        return [
            Record(step.step, plan.layout, mine, histogram, measured(totals, row))
            for step, mine, histogram, row in zip(
                steps, numbers, each, table, strict=True
            )
        ]

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


def _weights(totals: TapTotals, width: int) -> Numbers:
    """Returns the columns of each weight; those that were not measured are blank."""
    parts = totals.parts
    values = blank((*parts["rows"].shape[:2], width))
    values[..., :MEASURED] = parts["rows"]
    for index, name in enumerate(_MOVES):
        values[..., COLUMNS.index(name)] = parts["moves"][..., 2 * index]
        if width > len(COLUMNS):
            values[..., len(COLUMNS) + index] = parts["moves"][..., 2 * index + 1]
    applies = totals.applies
    values[applies, :, COLUMNS.index("applied_norm")] = totals.applied[applies]
    return values


class TapTotals:
    """The numbers of one tap for each step as a whole.

    Attributes:
        parts: What the tap has sent, `[steps, ...]`.
        applies: True for steps in which the optimizer changes the weights.
        applied: The norms of what the optimizer's rule was given.
        numbers: The totals by name, `[steps]`; blank where not measured.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        scale, rate, advanced, updates = parts["totals"].astype(np.float64).T
        rows, moves = parts["rows"], parts["moves"]
        before = parts.get("accumulated", rows[..., 0])
        self.applied = parts.get("applied", before)
        self.applies = (updates != 0) & (advanced != 0)
        # Rounding alone moves a norm by some millionths.
        clipped = np.any(self.applied < before * (1 - 1e-5), axis=-1)
        nothing = blank(1)
        self.numbers: dict[str, Numbers] = {
            "global_norm": _together(rows),
            "weight_norm": _root(moves[..., 0]),
            "update_norm": _root(moves[..., 2]),
            "skipped": np.where(advanced == 0, 1.0, 0.0),
            "update": np.where(self.applies, 1.0, 0.0),
            "loss_scale": scale,
            "learning_rate": np.where(np.isnan(rate), nothing, rate),
            "applied_norm": np.where(
                self.applies, _together(rows, self.applied), nothing
            ),
            "clipped": np.where(self.applies, clipped, nothing),
        }


def _root(norms: Numbers) -> Numbers:
    """Returns the norm of all together; the largest is divided out before squaring."""
    top = np.max(np.abs(norms), axis=-1, initial=0.0)
    ordinary = (top > 0) & (top < math.inf)
    unit = np.where(ordinary, top, 1.0)
    sums = np.sum((norms / unit[..., None]) ** 2, axis=-1)
    norm: Numbers = np.where(ordinary, unit * np.sqrt(sums), top)
    return norm


def _together(rows: Numbers, norms: Numbers | None = None) -> Numbers:
    """Returns `_root`, but NaN or infinity if any element of any gradient is.

    Args:
        rows: The rows of the gradients.
        norms: Of their finite elements (default: as the rows say).
    """
    odd = rows[..., _ODD].sum(axis=-2)
    together = _root(rows[..., 0] if norms is None else norms)
    together[odd[..., 1:].any(axis=-1)] = math.inf
    together[odd[..., 0] > 0] = math.nan
    return together


def _joined(taps: list[Mapping[str, Numbers]]) -> dict[str, Numbers]:
    """Adds up several optimizers: norms as norms do, a flag is set if any has it."""
    if len(taps) <= 1:
        return dict(*taps)
    totals: dict[str, Numbers] = {}
    for name in taps[0]:
        values = np.array([tap[name] for tap in taps]).T
        absent = is_blank(values)
        if name.endswith("norm"):
            joined = _root(np.where(absent, 0.0, values))
        else:
            joined = np.max(np.where(absent, -math.inf, values), axis=-1)
        totals[name] = np.where(absent.all(axis=-1), blank(1), joined)
    return totals


class LossReader:
    """Turns the mean loss over an epoch into the mean since the last record.

    The "loss" in the logs of Keras is the mean over all batches of the epoch so far. A
    `train_step` of the user's own may give that of the batch instead: it is taken for
    what it is.

    Args:
        model: The model that is trained.
    """

    def __init__(self, model: Any) -> None:
        self._running = _is_running(model)
        self._batches = 0
        self._mean = 0.0

    def read(self, told: Any, batches: int) -> float | None:
        """Returns the loss, or None if the logs have none.

        Args:
            told: The loss in the logs of the step: a tensor, a number, or None.
            batches: Number of batches of this epoch so far.
        """
        if told is None:
            return None
        mean = float(told)
        if not self._running:
            return mean
        if batches <= self._batches:  # another epoch
            self._batches, self._mean = 0, 0.0
        since = batches - self._batches
        loss = (mean * batches - self._mean * self._batches) / since
        self._batches, self._mean = batches, mean
        return loss


def _is_running(model: Any) -> bool:
    """Returns whether the loss in the logs is a mean over the epoch."""
    trainers = (keras.Model, keras.Sequential)
    own = any(type(model).train_step is trainer.train_step for trainer in trainers)
    if own:
        return True
    tracker = loss_tracker(model)
    return any(
        metric.name == "loss" and metric is not tracker
        for metric in getattr(model, "metrics", ())
    )
