"""The lines of the picture: one weight each, with what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...diagnose import SYMPTOMS, Finding
from .._format import printable
from ..palette import GREEN, VERMILION
from ._recent import ABSENT, FINITE, NAN, NEGINF, POSINF, ZERO, Kept, Recent
from ._spark import MARKS


@dataclass(frozen=True, slots=True)
class State:
    """How a line does. Sign and words say it without the colour.

    Attributes:
        rank: 0 is the worst.
    """

    rank: int
    sign: str
    words: str
    style: str


@dataclass(frozen=True, slots=True)
class Line:
    """One weight at the newest record; None is "not measured".

    Attributes:
        place: Along the depth of the model.
        kind: What its norm is.
    """

    place: int
    name: str
    norm: float | None
    kind: int
    ratio: float | None
    zeros: float | None
    state: State


def lines_of(recent: Recent) -> list[Line]:
    """Returns the weights of the newest record; activations, if it has no weights."""
    if not recent.records:
        return []
    newest = recent.records[-1]
    blamed = _blamed(recent.findings)
    own = _own(newest)
    names = [newest.found.layout.names[at] for at in own]
    _, kinds = history(recent, names)
    lines = []
    for place, (at, name) in enumerate(zip(own, names, strict=True)):
        kind, worst = int(newest.kinds[at]), int(kinds[:, place].max())
        lines.append(
            Line(
                place,
                name,
                _norm(newest, at, kind),
                kind,
                _value(newest.ratio, at),
                _value(newest.columns["zeros"], at),
                _state(newest, at, (kind, worst), _symptom(name, blamed)),
            )
        )
    return lines


def worst_first(lines: Sequence[Line]) -> list[Line]:
    """Returns the lines in the order in which they are worth a look."""
    return sorted(lines, key=lambda line: (line.state.rank, line.place))


def history(
    recent: Recent, names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """Returns norms and what they are, `[records, lines]`, of what is kept.

    A line that a record does not have was not measured there.
    """
    shape = len(recent.records), len(names)
    norms, kinds = np.ones(shape), np.full(shape, ABSENT)
    known: Any = None
    for row, kept in enumerate(recent.records):
        layout = kept.found.layout
        if layout is not known:
            known = layout
            where = {layout.names[at]: at for at in reversed(_own(kept))}
            there = [to for to, name in enumerate(names) if name in where]
            to = np.array(there, int)
            source = np.array([where[names[at]] for at in there], int)
        norms[row, to] = kept.columns["norm"].filled(1.0)[source]
        kinds[row, to] = kept.kinds[source]
    return norms, kinds


def totals_history(
    recent: Recent, name: str
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """As `history`, of one number that is said of each step as a whole."""
    found = [kept.found.totals.get(name) for kept in recent.records]
    norms = np.array([[1.0 if v is None else v] for v in found], float)
    kinds = np.array([[kind_of(v)] for v in found], int)
    return norms.reshape(-1, 1), kinds.reshape(-1, 1)


def kind_of(value: float | None) -> int:
    """Returns what a number is."""
    if value is None:
        return ABSENT
    if np.isfinite(value):
        return FINITE if value > 0 else ZERO
    return NAN if np.isnan(value) else POSINF if value > 0 else NEGINF


def finding_line(found: Mapping[str, Any]) -> str:
    """Returns a finding in one line, also one of a version that knew more symptoms."""
    if found.get("symptom") in SYMPTOMS:
        return printable(Finding.from_dict(found).one_line())
    since = found.get("since", found.get("step", 0))
    return printable(f"{found.get('symptom', 'finding')} since step {since}")


def _own(kept: Kept) -> list[int]:
    kinds = kept.found.layout.kinds
    for kind in ("weight", "activation"):
        own = [at for at, k in enumerate(kinds) if k == kind]
        if own:
            return own
    return []


def _value(column: Any, at: int) -> float | None:
    return None if np.ma.getmaskarray(column)[at] else float(column.data[at])


def _norm(kept: Kept, at: int, kind: int) -> float | None:
    odd = {NAN: np.nan, POSINF: np.inf, NEGINF: np.inf, ABSENT: None}
    return odd[kind] if kind in odd else _value(kept.columns["norm"], at)


def _blamed(findings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the first symptom that was found at each address."""
    found: dict[str, str] = {}
    for each in findings:
        for address in each.get("addresses", ()):
            found.setdefault(str(address), str(each.get("symptom", "finding")))
    return found


def _symptom(name: str, blamed: Mapping[str, str]) -> str | None:
    """A finding speaks of a weight, or of the layer that it belongs to."""
    return blamed.get(name, blamed.get(name.rpartition("/")[0]))


def _state(kept: Kept, at: int, kinds: tuple[int, int], symptom: str | None) -> State:
    """Returns how a line does, of which the norm is, and at worst was, of this kind."""
    now, worst = kinds
    if now in _BAD:
        column, word = _BAD[now]
        count = _value(kept.columns[column], at)
        words = f"{count:,.0f} {word}" if count else word
        return State(0, "✖", words, MARKS[now][1])
    if symptom is not None:
        return State(1, "▲", printable(symptom), f"bold {VERMILION}")
    if worst in _BAD:
        return State(2, "✖", f"had {_BAD[worst][1]}", f"bold {VERMILION}")
    if now == ZERO:
        return State(3, "○", "all zero", VERMILION)
    if now == ABSENT:
        return State(4, "·", "no gradient", "dim")
    return State(WELL, "●", "ok", GREEN)


_BAD = {NAN: ("nan", "NaN"), POSINF: ("posinf", "+∞"), NEGINF: ("neginf", "-∞")}
WELL = 5
