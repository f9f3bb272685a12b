"""The form that every table has before it becomes text, rich or HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gradwatch.summarise import Row

from . import _format as form
from .palette import Tone

MOSTLY_ZERO = 0.9
_NUMBERS = ("norm", "mean", "std", "min", "max")
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


@dataclass(frozen=True, slots=True)
class TableColumn:
    """The heading of a column and the side its cells lean to."""

    heading: str
    align: Literal["left", "right"] = "right"


@dataclass(frozen=True, slots=True)
class Section:
    """Records that belong together; an empty heading is not shown."""

    heading: str
    records: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Note:
    """A text below the table, and the names that it is about."""

    text: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A whole table."""

    title: str
    columns: tuple[TableColumn, ...]
    sections: tuple[Section, ...]
    notes_heading: str = ""
    notes: tuple[Note, ...] = ()
    footer: tuple[str, ...] = ()


def grid_of_rows(
    rows: Sequence[Row],
    *,
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
    makers = [maker for maker in _MAKERS if maker[0].heading not in hidden]
    sections = []
    for kind, members in by_kind(rows).items():
        bars = norm_bars(members)
        records = []
        for row, bar in zip(members, bars, strict=True):
            cells = {c.heading: make(row, digits) for c, make in makers}
            cells["norm"] = replace(cells["norm"], bar=bar)
            records.append(tuple(cells.values()))
        heading = f"{HEADINGS.get(kind, form.printable(kind))} ({len(members)})"
        sections.append(Section(heading, tuple(records)))
    missing = _notes(rows)
    count = sum(len(note.names) for note in missing)
    return Grid(
        title=form.printable(title),
        columns=tuple(column for column, _ in makers),
        sections=tuple(sections),
        notes_heading=f"no gradient ({count})" if count else "",
        notes=missing,
        footer=tuple(form.printable(line) for line in footer),
    )


def by_kind(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Returns the rows of each kind, kinds in the order of their first row."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(row.kind, []).append(row)
    return kinds


def norm_bars(rows: Sequence[Row]) -> list[float | None]:
    """Returns a bar length per row: the norm, on a log scale, among its own kind.

    The scale has at least three decades, so that a few norms of about the same size
    look about the same.
    """
    logs = [_log(row.norm) for row in rows]
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


def _log(norm: float | None) -> float | None:
    return math.log10(norm) if norm and math.isfinite(norm) else None


def _notes(rows: Iterable[Row]) -> tuple[Note, ...]:
    """Returns each reason once, with the names it holds for."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.missing is not None:
            names = reasons.setdefault(row.missing, [])
            names.append(form.printable(row.name))
    return tuple(Note(form.printable(r), tuple(n)) for r, n in reasons.items())


def _number_cell(value: float | None, digits: int) -> Cell:
    text = form.number(value, digits)
    if value is None:
        return Cell(text, "dim")
    return Cell(text, "plain" if math.isfinite(value) else "alarm", repr(value))


def _number_column(name: str) -> Callable[[Row, int], Cell]:
    return lambda row, digits: _number_cell(getattr(row, name), digits)


def _zeros_cell(row: Row, _: int) -> Cell:
    text = form.percent(row.zeros)
    if row.zeros is None:
        return Cell(text, "dim")
    return Cell(text, "warn" if row.zeros >= MOSTLY_ZERO else "plain", repr(row.zeros))


def _nonfinite_cell(row: Row, _: int) -> Cell:
    text = form.nonfinite(row.nan, row.posinf, row.neginf)
    if row.nonfinite is None:
        return Cell(text, "dim")
    return Cell(text, "alarm" if row.nonfinite else "plain")


def _tone_of_name(row: Row) -> Tone:
    if row.missing is not None:
        return "dim"
    return "alarm" if row.nonfinite else "plain"


_Maker = tuple[TableColumn, Callable[[Row, int], Cell]]
_MAKERS: tuple[_Maker, ...] = (
    (
        TableColumn("name", "left"),
        lambda row, _: Cell(form.printable(row.name), _tone_of_name(row)),
    ),
    (
        TableColumn("shape", "left"),
        lambda row, _: Cell(
            # A tensor that was never met has no dtype, and no shape to show.
            form.dimensions(row.shape) if row.dtype else form.number(None),
            "plain" if row.missing is None else "dim",
            f"{row.shape} {row.dtype}",
        ),
    ),
    *((TableColumn(name), _number_column(name)) for name in _NUMBERS),
    (TableColumn("% zero"), _zeros_cell),
    (TableColumn("non-finite"), _nonfinite_cell),
)
