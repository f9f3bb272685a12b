"""Tables as plain text, for `print` and for files."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType

from gradwatch.summarise import Row

from . import _format as form
from ._cells import Cell, Columns, Grid
from ._rich import FittedTable, table_rich

DEFAULT_WIDTH = 100
NARROWEST = 40  # in less a number would be cut in two; a terminal wraps the line
# What rich must not find out about the terminal.
_FORCED = ("force_terminal", "force_jupyter", "legacy_windows", "emoji", "highlight")
# A number with or without separators, NaN, or a dash; or nothing.
_NUMBER = re.compile(r"([-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?|NaN|—)?")
# For terminals that cannot show them. One cell for one, where there is a like one.
_ASCII = str.maketrans({"…": "~", "—": "-", "─": "-", "×": "x", "∞": "inf"})


def table_text(
    rows: Sequence[Row],
    *,
    title: str,
    footer: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """Returns the table of gradients as plain text.

    One line per gradient, in sections by kind; those that are missing stand among
    them with dashes, and the reasons below. Long addresses are folded in the middle,
    and never two to the same text. Columns that do not fit are named in the footer.

    Example:
    >>> import numpy as np
    >>> from gradwatch.summarise import Row, summarise_array
    >>> rows = [
    ...     summarise_array(
    ...         "dense/kernel", "weight", np.array([[3.0, 0.0], [0.0, -4]])
    ...     ),
    ...     Row.absent(
    ...         "dense/bias", "weight", (2,), "float32", "frozen, not asked for"
    ...     ),
    ... ]
    >>> print(table_text(rows, title="loss gradients of 'demo'"))
    loss gradients of 'demo'
    name          shape   norm     mean    std     min    max  % zero  non-finite
    ─────────────────────────────────────────────────────────────────────────────
    weights (2)
    dense/kernel  2×2    5.000  -0.2500  2.487  -4.000  3.000    50.0           0
    dense/bias    2          —        —      —       —      —       —           —
    <BLANKLINE>
    no gradient (1)
      dense/bias
        frozen, not asked for

    Args:
        rows: The gradients, in the order to show them.
        title: The line above the table.
        footer: The lines below it.
        width: Cells to fit into. By default those of the terminal when there is one,
            100 otherwise.
    """
    return printed(table_rich(rows, title=title, footer=footer), width)


def plain_table(
    columns: Sequence[str],
    records: Sequence[Sequence[str]],
    *,
    title: str,
    footer: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """Returns a table of any words as plain text; the first column holds addresses.

    A column whose every entry is a number (or empty) leans to the right.

    Example:
    >>> print(plain_table(["layer", "weights"], [["conv1", "320"]], title="demo"))
    demo
    layer  weights
    ──────────────
    conv1      320

    Args:
        columns: The headings.
        records: One sequence of words per line, as long as `columns`.
        title: The line above the table.
        footer: The lines below it.
        width: As in `table_text`.

    Raises:
        ValueError: If a record has more or fewer entries than there are columns.
    """
    heads: Columns = [
        (form.printable(head), "right" if _numeric(words) else "left")
        for head, *words in zip(columns, *records, strict=True)
    ]
    cells = [[Cell(form.printable(word)) for word in record] for record in records]
    sections, lines = [("", cells)] if cells else [], list(map(form.printable, footer))
    grid = Grid(form.printable(title), heads, sections, footer=lines)
    return printed(FittedTable(lambda _: grid), width)


def _numeric(words: Sequence[str]) -> bool:
    return any(words) and all(map(_NUMBER.fullmatch, words))


def printed(renderable: RenderableType, width: int | None = None) -> str:
    """Returns what rich would print, as plain text."""
    # `sys.stdout` is None under pythonw, and need not have `isatty` when replaced.
    terminal = getattr(sys.stdout, "isatty", lambda: False)()
    shown = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    if width is None:
        width = shown if terminal else DEFAULT_WIDTH
    options: Any = {"color_system": None, **dict.fromkeys(_FORCED, False)}
    console = Console(file=io.StringIO(), width=max(NARROWEST, width), **options)
    with console.capture() as capture:
        console.print(renderable)
    lines = capture.get().split("\n")
    return _showable("\n".join(line.rstrip() for line in lines).strip("\n"))


def _showable(text: str) -> str:
    """Returns the text in characters which printing it will not fail on."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text
