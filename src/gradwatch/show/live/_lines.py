"""The lines of the picture: one weight each, with what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...diagnose import SYMPTOMS, Finding
from ...run import TOTALS, Chunk, Layout, Store
from ...summarise import is_blank
from .._format import printable
from ..charts import QUANTITIES
from ..palette import GREEN, VERMILION
from ._live import KEPT
from ._spark import ABSENT, FINITE, MARKS, NAN, NEGINF, POSINF, ZERO


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


def lines_of(store: Store) -> list[Line]:
    """Returns the weights of the newest record; activations, if it has no weights."""
    if not len(store):
        return []
    chunk, at = store.at(len(store) - 1)
    newest = slice(at, at + 1)
    blamed = _blamed(store.findings)
    own = _own(chunk.layout)
    names = [chunk.layout.names[row] for row in own]
    _, past = history(store, names)
    now = norm_kinds(chunk, newest)[0]
    ratios, known = QUANTITIES["update_ratio"].of(chunk, newest)
    lines = []
    for place, (row, name) in enumerate(zip(own, names, strict=True)):
        kind, worst = int(now[row]), int(past[:, place].max())
        counts = {
            column: _value(chunk.column(column)[at, row]) for column, _ in _BAD.values()
        }
        lines.append(
            Line(
                place,
                name,
                _norm(_value(chunk.column("norm")[at, row]), kind),
                kind,
                float(ratios[0, row]) if known is None or known[0, row] else None,
                _value(chunk.column("zeros")[at, row]),
                _state(counts, (kind, worst), _symptom(name, blamed)),
            )
        )
    return lines


def worst_first(lines: Sequence[Line]) -> list[Line]:
    """Returns the lines in the order in which they are worth a look."""
    return sorted(lines, key=lambda line: (line.state.rank, line.place))


def norm_kinds(chunk: Chunk, rows: slice) -> NDArray[np.int_]:
    """Returns what the norms of some steps are, of all their elements."""
    norms = chunk.column("norm")[rows]
    kinds = np.where(norms == 0, ZERO, FINITE)
    kinds[is_blank(norms)] = ABSENT
    for column, kind in (("neginf", NEGINF), ("posinf", POSINF), ("nan", NAN)):
        kinds[chunk.column(column)[rows] > 0] = kind  # not measured is not more than 0
    kinds[~np.isfinite(norms) & (kinds <= FINITE) & ~is_blank(norms)] = NAN
    return kinds


def history(
    store: Store, names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """Returns norms and what they are, `[records, lines]`, of the newest records.

    A line that a record does not have was not measured there.
    """
    steps = store.steps[-KEPT:]
    norms, kinds = (
        np.ones((len(steps), len(names))),
        np.full((len(steps), len(names)), ABSENT),
    )
    if not len(steps):
        return norms, kinds
    at = 0
    for chunk, rows in store.between(steps[0], steps[-1]):
        layout, count = chunk.layout, rows.stop - rows.start
        where = {layout.names[row]: row for row in reversed(_own(layout))}
        to = np.array([to for to, name in enumerate(names) if name in where], int)
        source = np.array([where[names[each]] for each in to], int)
        cells = np.ix_(np.arange(at, at + count), to)
        found = chunk.column("norm")[rows][:, source]
        norms[cells] = np.where(is_blank(found), 1.0, found)
        kinds[cells] = norm_kinds(chunk, rows)[:, source]
        at += count
    return norms, kinds


def totals_history(
    store: Store, name: str
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """As `history`, of one number that is said of each step as a whole."""
    at = TOTALS.index(name)
    values = [
        float(number) if known else None
        for chunk in store.chunks
        for number, known in zip(
            chunk.totals[at, : chunk.count],
            chunk.measured[at, : chunk.count],
            strict=True,
        )
    ][-KEPT:]
    norms = np.array([[1.0 if value is None else value] for value in values], float)
    kinds = np.array([[kind_of(value)] for value in values], int)
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


def _own(layout: Layout) -> list[int]:
    for kind in ("weight", "activation"):
        own = [row for row, k in enumerate(layout.kinds) if k == kind]
        if own:
            return own
    return []


def _value(number: np.float64) -> float | None:
    return None if is_blank(np.asarray(number)) else float(number)


def _norm(norm: float | None, kind: int) -> float | None:
    odd = {NAN: np.nan, POSINF: np.inf, NEGINF: np.inf, ABSENT: None}
    return odd.get(kind, norm)


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


def _state(
    counts: Mapping[str, float | None], kinds: tuple[int, int], symptom: str | None
) -> State:
    """Returns how a line does, of which the norm is, and at worst was, of this kind."""
    now, worst = kinds
    if now in _BAD:
        column, word = _BAD[now]
        count = counts[column]
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
