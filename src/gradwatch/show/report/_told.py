"""What a report tells of a run, in whatever format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._errors import counted
from ...diagnose import PATIENCE, Finding, find, too_few_steps
from ...run import Run, Store
from .._format import number
from ..charts import QUANTITIES, curves

HEADS = (
    *("first norm", "last norm", "largest", "update ratio", "% zero"),
    "not finite at",
)
"""The columns of a table of layers."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One weight, over all recorded steps; None where nothing was measured.

    Attributes:
        name: The address.
        first: The norm of its gradient at the first record.
        last: At the last.
        largest: The largest norm.
        ratio: The update ratio, the median.
        zeros: The share of zeros at the last record.
        bad: At how many records some element was NaN or infinite.
    """

    name: str
    first: float | None
    last: float | None
    largest: float | None
    ratio: float | None
    zeros: float | None
    bad: int


@dataclass(frozen=True, slots=True)
class Told:
    """A run, read and judged.

    Attributes:
        name: What it is called in the report.
        store: Its numbers.
        findings: What is wrong with it.
        trained: What was trained, in words.
        cost: What watching cost, in words.
        layers: Its weights, along the depth of the model.
        recorded: Whether the findings are those that the monitor wrote; else it was
            judged for the report.
    """

    name: str
    store: Store
    findings: tuple[Finding, ...]
    trained: dict[str, str]
    cost: str
    layers: tuple[Layer, ...]
    recorded: bool

    @property
    def enough(self) -> bool:
        """Whether there are steps enough to say that nothing is wrong."""
        return bool(self.findings) or len(self.store) >= PATIENCE

    @property
    def nothing(self) -> str:
        """What is said of a run without findings."""
        if self.enough:
            return "Nothing was found to be wrong."
        return too_few_steps(len(self.store))


def told_of(run: Run, name: str) -> Told:
    """Returns what there is to tell of a run.

    Findings are those that the monitor wrote. A run without any is judged now: it may
    be of a version that had no rules yet.
    """
    store, recorded = run.store, bool(run.findings)
    findings = tuple(Finding.from_dict(kept) for kept in run.findings) or find(run)
    trained, cost = _trained(store), _cost(store.notes.get("overhead"))
    trained["judged"] = "while it trained" if recorded else "now, for this report"
    return Told(name, store, findings, trained, cost, _layers(store), recorded)


def seen(finding: Finding) -> str:
    """Returns the numbers that show a finding, in words."""
    return ", ".join(
        f"{what} {_short(value)}" for what, value in finding.evidence.items()
    )


def until(finding: Finding) -> str:
    """Returns the end of a finding that is over, in words."""
    return "" if finding.until is None else f" until step {finding.until:,}"


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return value
    whole = float(value).is_integer() and abs(value) < 1e6
    return f"{int(value):,}" if whole else number(value, 3)


def _trained(store: Store) -> dict[str, str]:
    facts = store.notes.get("run", {})
    parameters = facts.get("parameters")
    keras = f", Keras {facts['keras']}" if "keras" in facts else ""
    rate = _clipped(store)
    found = {
        "model": str(facts.get("model", "—")),
        "parameters": f"{parameters:,}" if parameters else "—",
        "optimizer": ", ".join(facts.get("optimizers", ())) or "—",
        "backend": f"{facts.get('backend', '—')}{keras}",
        "recorded": _recorded(store),
        "watched": _watched(store),
    }
    if rate is not None:
        found["clipped"] = f"{100 * rate:.0f} % of the recorded updates"
    lost = store.notes.get("dropped", {}).get("count")
    if lost:
        found["not written"] = f"{lost:,} records: the disk failed"
    return found


def _recorded(store: Store) -> str:
    steps = counted(len(store), "step")
    if len(store) == 1:
        return f"{steps}, number {store.first:,}"
    return f"{steps}, {store.first:,} to {store.last:,}" if len(store) else steps


def _watched(store: Store) -> str:
    weights, activations = len(store.names("weight")), len(store.names("activation"))
    more = f", {activations:,} activations" if activations else ""
    return f"{weights:,} weights{more}"


def _clipped(store: Store) -> float | None:
    found = curves(store, count=1)
    updates = int(found.updates.sum())
    return float(found.clipped.sum()) / updates if updates else None


def _cost(overhead: dict[str, Any] | None) -> str:
    if not overhead:
        return "It was not noted what watching cost: the training did not end yet."
    share, host = overhead.get("share"), overhead.get("host_ms") or 0.0
    words = (
        f"{overhead.get('records', 0):,} of {overhead.get('steps', 0):,} steps were "
    )
    words += f"recorded, at {host:.1f} ms of the host each"
    inside = overhead.get("in_step_ms")
    about = "about " if overhead.get("compared_with") == "an estimate" else ""
    if inside is not None:
        words += f" and {about}{inside:.1f} ms in the step"
    if share is not None:
        words += f": {about}{100 * share:.1f} % of the training time"
    return f"{words}{' so far' if overhead.get('so_far') else ''}."


def _layers(store: Store) -> tuple[Layer, ...]:
    norms, ratios, zeros = (
        _column(store, name) for name in ("norm", "update_ratio", "zeros")
    )
    bad = _column(store, "nonfinite")
    found = []
    for line, name in enumerate(store.names("weight")):
        with np.errstate(all="ignore"):
            own = norms[:, line][np.isfinite(norms[:, line])]
            moved = ratios[:, line][np.isfinite(ratios[:, line])]
            still = zeros[:, line][np.isfinite(zeros[:, line])]
        found.append(
            Layer(
                name,
                float(own[0]) if len(own) else None,
                float(own[-1]) if len(own) else None,
                float(own.max()) if len(own) else None,
                float(np.median(moved)) if len(moved) else None,
                float(still[-1]) if len(still) else None,
                int(np.count_nonzero(np.nan_to_num(bad[:, line]) > 0)),
            )
        )
    return tuple(found)


def _column(store: Store, name: str) -> NDArray[np.float64]:
    """Returns a quantity of the weights at each step; NaN where not measured."""
    found = np.full((len(store), len(store.names("weight"))), np.nan, np.float64)
    at = 0
    for chunk in store.chunks:
        numbers, measured = QUANTITIES[name].of(chunk, slice(0, chunk.count))
        if measured is not None:
            numbers = np.where(measured, numbers, np.nan)
        to, source = store.rows_of(chunk.layout, "weight")
        rows = slice(at, at + chunk.count)
        if to is None:
            found[rows] = numbers
        else:
            found[rows, to] = numbers[:, source]
        at += chunk.count
    return found
