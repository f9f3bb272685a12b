"""A table for a terminal that fits itself into the width it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gradwatch.summarise import Row

from ._cells import Grid, grid_of_rows
from ._fold import fold
from .palette import TONES

GAP = 2  # cells between two columns
LEAST_NAME = 16  # cells an address is never folded below; the others wrap first

# A rule below the head, a rule between sections, and nothing else. Line by line: top,
# head, head rule, body, section rule, foot rule, foot, bottom.
_RULES = box.Box("    \n    \n ── \n    \n ── \n ── \n    \n    \n")

# Tried in turn until the addresses have room: the number of digits, the columns left
# out, and the least number of cells that an address may then be folded to.
_LAYOUTS: tuple[tuple[int, tuple[str, ...], int], ...] = (
    (4, (), 36),
    (3, (), 36),
    (3, ("std",), 36),
    (3, ("std", "mean"), 28),
    (3, ("std", "mean", "shape"), 20),
    (3, ("std", "mean", "shape", "min", "max"), LEAST_NAME),
    (3, ("std", "mean", "shape", "min", "max", "% zero"), 0),
)


@dataclass(frozen=True)
class FittedTable:
    """A rich renderable: the widest of its forms that fits where it is printed."""

    fit: Callable[[int], Grid]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the table, then its notes and footer."""
        yield from _render(self.fit(options.max_width), options.max_width)


def table_rich(
    rows: Sequence[Row], *, title: str, footer: Sequence[str] = ()
) -> FittedTable:
    """Returns the coloured table of gradients, to `rich.print` or to yield from rich.

    What is not finite is bold red, a gradient with 90 % zeros or more yellow, and one
    that is missing dim. The table takes the width of the console it is printed on.

    Example:
    >>> import rich
    >>> from gradwatch.summarise import Row
    >>> row = Row.absent("dense/kernel", "weight", (4, 2), "float32", "frozen")
    >>> rich.print(table_rich([row], title="gradients"))  # doctest: +ELLIPSIS
    gradients
    name...

    Args:
        rows: The gradients, in the order to show them.
        title: The line above the table.
        footer: The lines below it.
    """

    def fullest(width: int) -> Grid:
        for digits, hidden, enough in _LAYOUTS:
            footnote = f"not shown at this width: {', '.join(hidden)}"
            lines = (*footer, footnote) if hidden else footer
            grid = grid_of_rows(rows, title, lines, digits, hidden)
            names, *others = natural_widths(grid)
            if width - sum(others) - GAP * len(others) >= min(names, enough):
                break
        return grid

    return FittedTable(fullest)


def natural_widths(grid: Grid) -> list[int]:
    """Returns the natural width of each column, in cells.

    The headings of sections stand in the first column, and count there.
    """
    records = [record for _, records in grid.sections for record in records]
    heads = [[cell_len(heading)] for heading, _ in grid.columns]
    heads[0] += [cell_len(heading) for heading, _ in grid.sections]
    columns = [[cell_len(r[i].text) for r in records] for i in range(len(heads))]
    return [max(head + cells) for head, cells in zip(heads, columns, strict=True)]


def _render(grid: Grid, width: int) -> Iterator[RenderableType]:
    if grid.title:
        yield Text(grid.title, TONES["heading"])
    yield _table(grid, width)
    if not grid.sections:
        yield Text("nothing to show", TONES["dim"])
    if grid.notes:
        yield Text(f"\n{grid.notes_heading}", TONES["heading"])
    for text, names in grid.notes:
        yield Padding(Text(", ".join(names), overflow="fold"), (0, 0, 0, 2))
        yield Padding(Text(text, TONES["dim"]), (0, 0, 0, 4))
    if grid.footer:
        yield Text("\n" + "\n".join(grid.footer))


def _table(grid: Grid, width: int) -> Table:
    first, *others = natural_widths(grid)
    room = width - sum(others) - GAP * len(others)
    first = min(max(LEAST_NAME, room), first)
    # Where even that is too much, rich wraps the widest of the other columns.
    sizes = [first, *(others if first <= room else [None] * len(others))]
    table = bare_table(_RULES)
    for (heading, side), size in zip(grid.columns, sizes, strict=True):
        table.add_column(Text(heading), justify=side, overflow="fold", width=size)
    names = (name.text for _, records in grid.sections for name, *_ in records)
    shown = fold(names, first)
    for heading, records in grid.sections:
        table.add_section()
        if heading:
            table.add_row(Text(heading, TONES["heading"]))
        for name, *cells in records:
            # A Text and never a str: rich would read "[bold]" in a layer's name as
            # markup.
            texts = [shown[name.text], *(cell.text for cell in cells)]
            tones = [TONES[cell.tone] for cell in (name, *cells)]
            table.add_row(*map(Text, texts, tones))
    return table


def bare_table(rules: box.Box) -> Table:
    """Returns an empty table without a frame, its columns `GAP` cells apart."""
    padding: Any = {"padding": (0, GAP - 1, 0, 0), "pad_edge": False}
    return Table(box=rules, show_edge=False, header_style=TONES["heading"], **padding)
