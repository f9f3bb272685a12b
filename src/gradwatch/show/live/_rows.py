"""The rows of the picture: one weight each, with its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...diagnose import SYMPTOMS, Finding, within
from ...run import Run
from ...summarise import is_blank
from .._format import printable
from ..charts import QUANTITIES, column
from ..palette import GREEN, VERMILION
from ._spark import ABSENT, FINITE, MARKS, NAN, NEGINF, POSINF, ZERO

KEPT = 512
"""Number of the newest records of which curves are drawn."""

WELL = 5
"""The rank of a row with which nothing is wrong."""

_BAD = {NEGINF: ("neginf", "-∞"), POSINF: ("posinf", "+∞"), NAN: ("nan", "NaN")}

Kinds = NDArray[np.int_]
"""The kind of each norm: `FINITE`, `NAN`, …."""


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One weight at the newest record; `None` where it was not measured.

    Attributes:
        name: The address.
        norm: The norm of its gradient, not finite if any element is not.
        kind: What its norm is.
        ratio: The update ratio.
        zeros: The share of zeros.
        rank: The rank of its state; 0 is worst.
        sign: A sign and words that tell the state without the colour.
        words: The state in words.
        style: Its colour.
    """

    name: str
    norm: float | None
    kind: int
    ratio: float | None
    zeros: float | None
    rank: int
    sign: str
    words: str
    style: str


def rows_of(run: Run) -> list[LiveRow]:
    """Returns the weights of the newest record; activations, if it has no weights."""
    if not len(run.steps):
        return []
    chunk, at = run.store.at(len(run.steps) - 1)
    kind = "weight" if "weight" in chunk.layout.kinds else "activation"
    names = run.store.names(kind)
    past, kinds = history(run, kind)

    def newest(read: Any) -> Any:
        numbers, known = read(chunk, slice(at, at + 1))
        return np.ma.MaskedArray(numbers[0], known is not None and ~known[0]).tolist()

    ratios, zeros = (newest(QUANTITIES[q].of) for q in ("update_ratio", "zeros"))
    counts = {state: newest(column(name)) for state, (name, _) in _BAD.items()}
    keys = zip(chunk.layout.kinds, chunk.layout.names, strict=True)
    rows: list[LiveRow] = []
    for source, (own, name) in enumerate(keys):
        if own != kind:
            continue
        to = names.index(name)
        now, worst = int(kinds[-1, to]), int(kinds[:, to].max())
        count = counts[now][source] if now in _BAD else None
        # The first symptom found at a weight, or at the layer it belongs to.
        symptoms = (
            str(finding.get("symptom", "finding"))
            for finding in run.findings
            if within(name, [str(a) for a in finding.get("addresses", ())])
        )
        state = _state(now, worst, count, next(symptoms, None))
        norm = None if now == ABSENT else float(past[-1, to])
        if now in _BAD and np.isfinite(past[-1, to]):
            # The norm of all elements: one that is not finite decides it.
            norm = float("nan") if now == NAN else float("inf")
        rows.append(LiveRow(name, norm, now, ratios[source], zeros[source], *state))
    return rows


def history(run: Run, kind: str) -> tuple[NDArray[np.float64], Kinds]:
    """Returns norms and what they are, `[records, names]`, of the newest records.

    A name that a record does not have was not measured there.
    """
    store, steps = run.store, run.steps[-KEPT:]
    shape = len(steps), len(store.names(kind))
    norms, kinds = np.ones(shape), np.full(shape, ABSENT)
    start = 0
    for chunk, rows in store.between(*steps[[0, -1]]) if len(steps) else ():
        to, source = store.rows_of(chunk.layout, kind)
        every = np.arange(shape[1])
        to, source = (every, every) if to is None else (to, source)
        own = chunk.column("norm")[rows]
        marks = kinds_of(own, ~is_blank(own))
        for mark, (name, _) in _BAD.items():
            marks[chunk.column(name)[rows] > 0] = mark  # not measured is not above 0
        cells = np.ix_(np.arange(start, start + len(own)), to)
        norms[cells], kinds[cells] = own[:, source], marks[:, source]
        start += len(own)
    return norms, kinds


def kinds_of(numbers: NDArray[np.float64], known: NDArray[np.bool_]) -> Kinds:
    """Returns what some numbers are, of which these were measured."""
    states = [~known, np.isnan(numbers), np.isposinf(numbers), np.isneginf(numbers)]
    return np.select(
        [*states, numbers == 0], [ABSENT, NAN, POSINF, NEGINF, ZERO], FINITE
    )


def finding_line(values: Mapping[str, Any]) -> str:
    """Returns a finding in one line, also one of a version that has more symptoms."""
    if values.get("symptom") in SYMPTOMS:
        return printable(Finding.from_dict(values).one_line())
    since = values.get("since", values.get("step", 0))
    return printable(f"{values.get('symptom', 'finding')} since step {since}")


def _state(
    now: int, worst: int, count: float | None, symptom: str | None
) -> tuple[int, str, str, str]:
    """Returns the state of a row whose norm is, and at worst was, of this kind."""
    if now in _BAD:
        words = f"{count:,.0f} {_BAD[now][1]}" if count else _BAD[now][1]
        return (0, "✖", words, MARKS[now][1])
    if symptom is not None:
        return (1, "▲", printable(symptom), f"bold {VERMILION}")
    if worst in _BAD:
        return (2, "✖", f"had {_BAD[worst][1]}", f"bold {VERMILION}")
    if now == ZERO:
        return (3, "○", "all zero", VERMILION)
    if now == ABSENT:
        return (4, "·", "no gradient", "dim")
    return (WELL, "●", "ok", GREEN)
