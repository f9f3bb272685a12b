"""The rows of the picture: one weight each, with its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...diagnose import SYMPTOMS, Finding, within
from ...run import Run
from .._format import printable
from ..charts import (
    IS_NAN,
    IS_NEGINF,
    IS_POSINF,
    QUANTITIES,
    UNMEASURED,
    ZERO,
    Heat,
    Quantity,
    heat,
)

KEPT = 512
"""Number of the newest records of which curves are drawn."""

WELL = 5
"""The rank of a row with which nothing is wrong."""

_BAD = {
    IS_NEGINF: ("neginf", "-∞"),
    IS_POSINF: ("posinf", "+∞"),
    IS_NAN: ("nan", "NaN"),
}


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One weight at the newest record; `None` where it was not measured.

    Attributes:
        name: The address.
        norm: The norm of its gradient, not finite if any element is not.
        state: What its norm is: `ZERO`, `NUMBER`, ….
        ratio: The update ratio.
        zeros: The share of zeros.
        rank: The rank of how well it is; 0 is worst.
        words: That in words.
    """

    name: str
    norm: float | None
    state: int
    ratio: float | None
    zeros: float | None
    rank: int
    words: str


def rows_of(run: Run) -> list[LiveRow]:
    """Returns the weights of the newest record; activations, if it has no weights."""
    if not len(run.steps):
        return []
    chunk, at = run.store.at(len(run.steps) - 1)
    recent, kind = history(run), _kind(run)
    states = recent.states

    def newest(quantity: Quantity) -> Any:
        numbers, known = quantity.of(chunk, slice(at, at + 1))
        return np.ma.MaskedArray(numbers[0], known is not None and ~known[0]).tolist()

    names = ("norm", "update_ratio", "zeros")
    norms, ratios, zeros = (newest(QUANTITIES[name]) for name in names)
    counts = {
        state: newest(Quantity(name, name, "")) for state, (name, _) in _BAD.items()
    }
    rows: list[LiveRow] = []
    for source, (own_kind, name) in enumerate(chunk.layout.keys):
        if own_kind != kind:
            continue
        past = states[recent.names.index(name)]
        now = int(past[-1])
        count = counts[now][source] if now in _BAD else None
        # The first symptom found at a weight, or at the layer it belongs to.
        addressed = ((f, [*map(str, f.get("addresses", ()))]) for f in run.findings)
        own = [f for f, addresses in addressed if within(name, addresses)]
        symptom = str(own[0].get("symptom", "finding")) if own else None
        norm = norms[source]
        if now in _BAD and (norm is None or np.isfinite(norm)):
            # The norm of all elements: one that is not finite decides it.
            norm = float("nan") if now == IS_NAN else float("inf")
        rank = _rank(now, int(past.max()), count, symptom)
        rows.append(LiveRow(name, norm, now, ratios[source], zeros[source], *rank))
    return rows


def _kind(run: Run) -> str:
    chunk, _ = run.store.at(len(run.steps) - 1)
    return "weight" if "weight" in chunk.layout.kinds else "activation"


def history(run: Run) -> Heat:
    """Returns the norms of the newest records, of which there is at least one."""
    steps = run.steps[-KEPT:]
    return heat(run, QUANTITIES["norm"], _kind(run), (steps[0], steps[-1]), None)


def finding_line(values: Mapping[str, Any]) -> str:
    """Returns a finding in one line, also one of a version that has more symptoms."""
    if values.get("symptom") in SYMPTOMS:
        return printable(Finding.from_dict(values).one_line())
    since = values.get("since", values.get("step", 0))
    return printable(f"{values.get('symptom', 'finding')} since step {since}")


def _rank(now: int, worst: int, count: Any, symptom: str | None) -> tuple[int, str]:
    """Returns rank and words of a row whose norm is, and at worst was, in a state."""
    if now in _BAD:
        return 0, f"{count:,.0f} {_BAD[now][1]}" if count else _BAD[now][1]
    if symptom is not None:
        return 1, printable(symptom)
    if worst in _BAD:
        return 2, f"had {_BAD[worst][1]}"
    well = (WELL, "ok")
    return {ZERO: (3, "all zero"), UNMEASURED: (4, "no gradient")}.get(now, well)
