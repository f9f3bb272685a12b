"""The form that every table has before it becomes text, rich or HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from gradwatch.summarise import Row

from . import _format as form
from .palette import Tone

Item = TypeVar("Item")
MOSTLY_ZERO = 0.9
_NUMBERS = ("norm", "mean", "std", "min", "max")
_HEADINGS = ("name", "shape", *_NUMBERS, "% zero", "non-finite")
HEADINGS = {"weight": "weights", "activation": "activations", "input": "inputs"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table: its text, its tone, and the exact value.

    Attributes:
        text: The text shown.
        tone: Its tone; some draw the eye.
        exact: The value in full, for media that can show it on demand.
        bar: The length of a bar beside the text, 0 to 1; `None` for no bar.
    """

    text: str
    tone: Tone = "plain"
    exact: str = ""
    bar: float | None = None


Columns = Sequence[tuple[str, Literal["left", "right"]]]
Records = Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Grid:
    """A whole table.

    Attributes:
        title: The line above.
        columns: The heading of each column, and the side its cells lean to.
        sections: Records that belong together, and their heading; an empty one is not
            shown.
        notes: Texts below the table, each with the names that it is about.
        footer: The lines below everything.
    """

    title: str
    columns: Columns
    sections: Sequence[tuple[str, Records]]
    notes: Sequence[tuple[str, Sequence[str]]] = ()
    footer: Sequence[str] = ()

    @property
    def notes_heading(self) -> str:
        """The line above the notes."""
        return f"no gradient ({sum(len(names) for _, names in self.notes)})"


def grid_of_rows(
    rows: Sequence[Row],
    title: str,
    footer: Sequence[str] = (),
    digits: int = 4,
    hidden: Collection[str] = (),
) -> Grid:
    """Returns the table of gradients: one section per kind, reasons below.

    Args:
        rows: The gradients, in the order to show them.
        title: The line above.
        footer: The lines below.
        digits: Number of significant digits.
        hidden: Headings of columns to leave out.
    """
    headings = [heading for heading in _HEADINGS if heading not in hidden]
    sections = []
    for kind, members in grouped(rows, lambda row: row.kind).items():
        records = []
        for row, bar in zip(members, norm_bars(members), strict=True):
            cells = dict(zip(_HEADINGS, _cells(row, digits, bar), strict=True))
            records.append([cells[heading] for heading in headings])
        title_of = HEADINGS.get(kind, form.printable(kind))
        sections.append((f"{title_of} ({len(members)})", records))
    missing = [row for row in rows if row.missing is not None]
    reasons = grouped(missing, lambda row: form.printable(row.missing or ""))
    notes = [(r, [form.printable(row.name) for row in m]) for r, m in reasons.items()]
    columns: Columns = [
        (h, "left" if h in ("name", "shape") else "right") for h in headings
    ]
    lines = list(map(form.printable, footer))
    return Grid(form.printable(title), columns, sections, notes, lines)


def grouped(items: Iterable[Item], key: Callable[[Item], str]) -> dict[str, list[Item]]:
    """Returns the items of each key, keys in the order of their first item."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def norm_bars(rows: Sequence[Row]) -> list[float | None]:
    """Returns a bar length per row: the norm, on a log scale, among its own kind.

    The scale has at least three decades, so that a few norms of about the same size
    look about the same.
    """
    norms = (row.norm for row in rows)
    logs = [math.log10(n) if n and math.isfinite(n) else None for n in norms]
    known = [log for log in logs if log is not None]
    if not known:
        return logs
    top = max(known)
    bottom = min(*known, top - 3)
    # The smallest gets a sliver: no bar at all stands for "no positive norm".
    return [
        log if log is None else 0.05 + 0.95 * (log - bottom) / (top - bottom)
        for log in logs
    ]


def _cells(row: Row, digits: int, bar: float | None) -> Iterator[Cell]:
    """Yields the cells below `_HEADINGS`."""
    absent: Tone = "plain" if row.missing is None else "dim"
    yield Cell(form.printable(row.name), "alarm" if row.nonfinite else absent)
    # A tensor that was never met has no dtype, and no shape to show.
    shape = form.dimensions(row.shape) if row.dtype else form.number(None)
    yield Cell(shape, absent, f"{row.shape} {row.dtype}")
    for name in _NUMBERS:
        value = getattr(row, name)
        odd = value is not None and not math.isfinite(value)
        text, length = form.number(value, digits), bar if name == "norm" else None
        yield _cell(value, text, "alarm" if odd else "plain", length)
    many = row.zeros is not None and row.zeros >= MOSTLY_ZERO
    yield _cell(row.zeros, form.percent(row.zeros), "warn" if many else "plain")
    counts = form.nonfinite(row.nan, row.posinf, row.neginf)
    unknown: Tone = "dim" if row.nonfinite is None else "plain"
    yield Cell(counts, "alarm" if row.nonfinite else unknown)


def _cell(value: float | None, text: str, tone: Tone, bar: float | None = None) -> Cell:
    """Returns the cell of a number, which is dim if it was not measured."""
    if value is None:
        return Cell(text, "dim", bar=bar)
    return Cell(text, tone, repr(value), bar)
