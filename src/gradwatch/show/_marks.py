"""The contents of a flow plot, computed without matplotlib."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from typing import Literal

from gradwatch.summarise import Row

from ._cells import HEADINGS, grouped
from ._format import printable

SECTION_GAP = 1.5  # positions left free between two kinds
MOST_BLOCKS = 26  # labels along a long axis
_VECTORS = ("bias", "beta", "gamma", "scale")

State = Literal["value", "zero", "missing", "empty", "nonfinite"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One gradient of a flow plot.

    Attributes:
        position: Its position along the depth axis.
        name: The address.
        group: The marker it gets: `"weight"`, `"vector"`, `"activation"`, ….
        state: `"nonfinite"` if there is no finite element at all.
        typical: The mean of |g|, above 0; NaN unless the state is `"value"`.
        largest: The largest |g|, likewise.
        alarm: True if any element is NaN or infinite.
    """

    position: float
    name: str
    group: str
    state: State
    typical: float
    largest: float
    alarm: bool


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbours along an axis with one label: a kind, or a block of layers."""

    label: str
    first: float
    last: float


def marks_of(rows: Sequence[Row]) -> tuple[list[Mark], list[Block]]:
    """Returns the marks in depth order, kind after kind, and where each kind lies."""
    marks: list[Mark] = []
    kinds: list[Block] = []
    start = 0.0
    for kind, members in grouped(rows, lambda row: row.kind).items():
        marks += [_mark(row, start + index) for index, row in enumerate(members)]
        last = start + len(members) - 1
        kinds.append(Block(HEADINGS.get(kind, printable(kind)), start, last))
        start = last + 1 + SECTION_GAP
    return marks, kinds


def blocks_of(
    named: Sequence[tuple[float, str]], most: int = MOST_BLOCKS
) -> list[Block]:
    """Returns neighbouring names grouped by the start of their addresses.

    Addresses can be cut after a number of parts ("encoder/layer_3"), or after a number
    of words of a part ("block_3" of "block_3_expand"). The finest cut that gives at
    most `most` groups is taken; the list is empty if none gives more than one.

    Args:
        named: The position and the address of each, ascending.
        most: Maximum number of groups.
    """
    depth = 1 + max((name.count("/") for _, name in named), default=0)
    best: list[Block] = []
    for parts, words in product(range(1, depth + 1), (1, 2, 3, None)):
        start = partial(_start, parts, words)
        blocks = [(label, list(members)) for label, members in groupby(named, start)]
        if len(best) < len(blocks) <= most:
            best = [Block(label, m[0][0], m[-1][0]) for label, m in blocks]
    return best if len(best) > 1 else []


def _start(parts: int, words: int | None, named: tuple[float, str]) -> str:
    *start, last = named[1].split("/")[:parts]
    return "/".join([*start, "_".join(last.split("_")[:words])])


def spaced(stretches: Sequence[Block], least: float) -> list[Block]:
    """Returns those whose middles lie `least` apart; of two closer ones the longer."""
    kept: list[Block] = []
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
    levels = zip(*(name.split("/")[:-1] for name in names), strict=False)
    shared = itertools.takewhile(lambda level: len(set(level)) == 1, levels)
    start = "".join(f"{level[0]}/" for level in shared)
    return start, [name.removeprefix(start) for name in names]


def _mark(row: Row, position: float) -> Mark:
    """Returns the mark of a row; in attention a bias has two axes."""
    state, typical, largest = _state(row), math.nan, math.nan
    if state == "value" and row.mean_abs is not None:
        typical = row.mean_abs
        if row.min is not None and row.max is not None:
            largest = max(abs(row.min), abs(row.max))
    is_vector = len(row.shape) <= 1 or row.name.endswith(_VECTORS)
    group = "vector" if row.kind == "weight" and is_vector else row.kind
    name, alarm = printable(row.name), bool(row.nonfinite)
    return Mark(position, name, group, state, typical, largest, alarm)


def _state(row: Row) -> State:
    if row.missing is not None or row.mean_abs is None:
        return "missing"
    if row.size == 0:
        return "empty"
    if math.isnan(row.mean_abs):
        return "nonfinite"
    return "value" if row.mean_abs > 0 else "zero"
