"""What a flow plot draws, before anything is drawn: no matplotlib here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from typing import Literal

from gradwatch.summarise import Row

from ._cells import HEADINGS, by_kind
from ._format import printable

SECTION_GAP = 1.5  # places left free between two kinds
MOST_BLOCKS = 26  # labels along a long axis
_VECTORS = ("bias", "beta", "gamma", "scale")

State = Literal["value", "zero", "missing", "empty", "nonfinite"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One gradient of a flow plot.

    Attributes:
        place: Where along the depth axis.
        name: The address.
        group: Which marker it gets: `"weight"`, `"vector"`, `"activation"`, ….
        state: What there is to draw. `"nonfinite"` has no finite element at all.
        typical: The mean of |g|, above 0; `None` unless the state is `"value"`.
        largest: The largest |g|, likewise.
        alarm: Whether any element is NaN or infinite.
    """

    place: float
    name: str
    group: str
    state: State
    typical: float | None
    largest: float | None
    alarm: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of marks with one label: a kind, or a block of layers."""

    label: str
    first: float
    last: float


def marks_of(rows: Sequence[Row]) -> tuple[list[Mark], list[Stretch]]:
    """Returns the marks in depth order, kind after kind, and where each kind lies."""
    marks: list[Mark] = []
    kinds: list[Stretch] = []
    place = 0.0
    for kind, members in by_kind(rows).items():
        start = place
        for row in members:
            marks.append(_mark(row, place))
            place += 1
        kinds.append(Stretch(HEADINGS.get(kind, printable(kind)), start, place - 1))
        place += SECTION_GAP
    return marks, kinds


def blocks_of(marks: Sequence[Mark], most: int = MOST_BLOCKS) -> list[Stretch]:
    """Returns neighbouring marks grouped by the start of their addresses.

    Of all ways to cut addresses off (after so many parts, "encoder/layer_3", or after
    so many words of a part, "block_3" of "block_3_expand") it takes the finest that
    gives at most `most` groups. An empty list means that none gives more than one.
    """
    depth = 1 + max((mark.name.count("/") for mark in marks), default=0)
    best: list[Stretch] = []
    for parts, words in product(range(1, depth + 1), (1, 2, 3, None)):
        blocks = [
            (label, list(members))
            for label, members in groupby(marks, partial(_start, parts, words))
        ]
        if len(best) < len(blocks) <= most:
            best = [Stretch(name, m[0].place, m[-1].place) for name, m in blocks]
    return best if len(best) > 1 else []


def _start(parts: int, words: int | None, mark: Mark) -> str:
    *start, last = mark.name.split("/")[:parts]
    return "/".join([*start, "_".join(last.split("_")[:words])])


def spaced(stretches: Sequence[Stretch], least: float) -> list[Stretch]:
    """Returns those whose middles lie `least` apart; of two too near, the longer."""
    kept: list[Stretch] = []
    for one in sorted(stretches, key=lambda s: s.first - s.last):
        middle = one.first + one.last
        if all(abs(middle - other.first - other.last) >= 2 * least for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda stretch: stretch.first)


def without_common_start(names: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the leading parts that all names share, and the names without them.

    Example:
    >>> without_common_start(["net/a/b", "net/c"])
    ('net/', ['a/b', 'c'])
    """
    split = [name.split("/") for name in names]
    depth = 0
    while all(len(parts) > depth + 1 for parts in split) and (
        len({parts[depth] for parts in split}) == 1
    ):
        depth += 1
    start = "".join(f"{part}/" for part in split[0][:depth])
    return start, ["/".join(parts[depth:]) for parts in split]


def _mark(row: Row, place: float) -> Mark:
    name = printable(row.name)
    largest = None
    if row.min is not None and row.max is not None:
        largest = max(abs(row.min), abs(row.max))
    state = _state(row)
    measured = state == "value"
    return Mark(
        place=place,
        name=name,
        group=_group(row),
        state=state,
        typical=row.mean_abs if measured else None,
        largest=largest if measured else None,
        alarm=bool(row.nonfinite),
    )


def _state(row: Row) -> State:
    if row.missing is not None or row.mean_abs is None:
        return "missing"
    if row.size == 0:
        return "empty"
    if math.isnan(row.mean_abs):
        return "nonfinite"
    return "value" if row.mean_abs > 0 else "zero"


def _group(row: Row) -> str:
    """Returns which marker the row gets; a bias may have two axes, as in attention."""
    if row.kind != "weight":
        return row.kind
    last = row.name.rsplit("/", 1)[-1]
    return "vector" if len(row.shape) <= 1 or last.endswith(_VECTORS) else "weight"
