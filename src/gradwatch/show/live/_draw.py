"""The picture: a headline, the layers, the findings; it fits its console."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..._errors import counted
from ...run import Run
from .._cells import MOSTLY_ZERO
from .._fold import fold, middle
from .._format import number, percent, printable
from ..palette import GREEN, TONES, VERMILION
from ._pace import Pace
from ._rows import (
    WELL,
    LiveRow,
    finding_line,
    history,
    rows_of,
    totals_history,
    worst_first,
)
from ._spark import FINITE, MARKS, ZERO, gathered, spark

_GAP = 2
_NAME, _SPARK = 14, 8  # least number of cells
_LONG_SPARK = 40
_QUIET = 10.0  # seconds without a record after which the headline says so
_BOLD, _DIM = TONES["heading"], TONES["dim"]

# For terminals that have ASCII only; the number of cells stays the same.
_ASCII = str.maketrans("▁▂▃▄▅▆▇█●▲✖○■…—─━·−∞", "..:-=+*#o!x0#~---.-i")


@dataclass(frozen=True)
class Picture:
    """A run as it is now; a rich renderable that fits the console it is printed on.

    Attributes:
        name: The name of the run.
        run: The run.
        pace: When its records arrived.
        notice: A line below, for what is unusual.
        height: Maximum number of lines (default: those of the console).
    """

    name: str
    run: Run
    pace: Pace
    notice: str = ""
    height: int | None = None

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Yields the lines, in characters that the console can show."""
        width = options.max_width
        height = self.height or options.height or console.size.height
        for part in self._parts(console, width, height):
            lines = console.render_lines(part, options, pad=False)
            for line in lines:
                for text, style, control in line:
                    yield Segment(showable(text, console.encoding), style, control)
                yield Segment.line()

    def _parts(
        self, console: Console, width: int, height: int
    ) -> Iterator[RenderableType]:
        rows = rows_of(self.run)
        yield _headline(self.name, self.run, self.pace, width)
        yield _global_norm(self.run, width)
        findings = _findings(self.run, console, width, height)
        below = len(findings) + bool(findings) + bool(self.notice)
        room = max(1, height - 5 - below)  # headline, blank, head of the table
        if rows:
            yield Text("")
            shown = rows
            if len(rows) > room:
                shown = worst_first(rows)[: max(1, room - 1)]
            yield _table(self.run, shown, width)
            if len(shown) < len(rows):
                yield _cropped(_left_out(rows, shown), width)
        if findings:
            yield Text("")
        yield from findings
        if self.notice:
            yield _cropped(Text(printable(self.notice), _BOLD), width)


def _headline(name: str, run: Run, pace: Pace, width: int) -> Text:
    parts = []
    if run.num_records:
        parts.append(f"step {run.store.last:,}")
        parts.append(counted(run.num_records, "record"))
    speed = pace.per_second(run)
    if speed is not None:
        parts.append(f"{number(speed, 3)} steps/s")
    share = run.notes.get("overhead", {}).get("share")
    if share is not None:
        parts.append(f"overhead {percent(share)} %")
    sign, words, style = _status(run, pace)
    end = Text(f"{sign} {words}", style)
    facts = Text("  ".join(["", *parts, ""]), no_wrap=True)
    room = max(8, width - facts.cell_len - end.cell_len)
    shown = printable(name)
    head = Text(fold([shown], room)[shown], _BOLD, no_wrap=True)
    return _cropped(Text.assemble(head, facts, end), width)


def _status(run: Run, pace: Pace) -> tuple[str, str, str]:
    if run.ended:
        return "■", "ended", _BOLD
    if not run.num_records:
        return "○", "no record yet", _DIM
    quiet = 0.0 if pace.heard is None else time.monotonic() - pace.heard
    if quiet > _QUIET:
        return "○", f"no record for {quiet:,.0f} s", VERMILION
    return "●", "live", GREEN


def _global_norm(run: Run, width: int) -> Text:
    """Returns the norm of all gradients together, and the loss."""
    if not len(run.steps):
        return Text("")
    chunk, at = run.store.at(len(run.steps) - 1)
    last = chunk.totals_at(at)
    text = Text("global norm ", no_wrap=True)
    norms, kinds = totals_history(run, "global_norm")
    text.append(number(last.get("global_norm"), 3), _kind_style(int(kinds[-1, 0])))
    loss = Text(f"  loss {number(last['loss'], 3)}" if "loss" in last else "")
    if "learning_rate" in last and width >= 80:
        loss.append(f"  learning rate {number(last['learning_rate'], 3)}")
    room = min(_LONG_SPARK, width - text.cell_len - loss.cell_len - 1)
    if room >= _SPARK:
        text.append(" ")
        text.append_text(_sparks(run, norms, kinds, room)[0])
    text.append_text(loss)
    return _cropped(text, width)


def _table(run: Run, rows: Sequence[LiveRow], width: int) -> Table:
    columns = [("norm", [number(row.norm, 3) for row in rows])]
    if width >= 64:
        heading = "update ratio" if width >= 90 else "ratio"
        columns.append((heading, [number(row.ratio, 3) for row in rows]))
    if width >= 50:
        columns.append(("% zero", [percent(row.zeros) for row in rows]))
    states = [f"{row.state.sign} {row.state.words}" for row in rows]
    sizes = [_widest(head, words) for head, words in columns]
    last = min(_widest("state", states), max(8, width // 4))
    names = [printable(row.name) for row in rows]
    room = width - sum(sizes) - last - _GAP * (len(columns) + 2)
    name = min(_widest("layer", names), max(_NAME, room - 2 * _SPARK))
    curve = min(_LONG_SPARK, room - name)
    if curve < _SPARK:
        name = max(_NAME, room + _GAP)
    folded = fold(names, name)
    table = _frame()
    # A row has no room to wrap: at worst two addresses look alike.
    cells = [[Text(middle(folded[n], name), no_wrap=True) for n in names]]
    table.add_column("layer", width=name, no_wrap=True)
    if curve >= _SPARK:
        table.add_column("recent norm", width=curve, no_wrap=True)
        cells.append(_recent_norms(run, rows, curve))
    for (head, words), size in zip(columns, sizes, strict=True):
        table.add_column(head, width=size, justify="right", no_wrap=True)
        own = zip(words, rows, strict=True)
        cells.append([Text(w, _style(head, row), no_wrap=True) for w, row in own])
    table.add_column("state", width=last, no_wrap=True, overflow="ellipsis")
    own = zip(states, rows, strict=True)
    cells.append([Text(w, row.state.style, overflow="ellipsis") for w, row in own])
    for line in zip(*cells, strict=True):
        table.add_row(*line)
    return table


def _frame() -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),
        header_style=_BOLD,
    )


def _widest(head: str, words: Sequence[str]) -> int:
    return max(cell_len(head), *(cell_len(word) for word in words))


def _style(head: str, row: LiveRow) -> str:
    if head == "norm":
        return _kind_style(row.kind)
    if head == "% zero" and row.zeros is not None and row.zeros >= MOSTLY_ZERO:
        return VERMILION
    return "none"


def _kind_style(kind: int) -> str:
    return "none" if kind in (FINITE, ZERO) else MARKS[kind][1]


def _recent_norms(run: Run, rows: Sequence[LiveRow], cells: int) -> list[Text]:
    kind = "weight" if rows[0].name in run.names else "activation"
    known = run.store.names(kind)
    norms, kinds = history(run, kind)
    chosen = [known.index(row.name) for row in rows]
    return _sparks(run, norms[:, chosen], kinds[:, chosen], cells)


def _sparks(run: Run, norms: Any, kinds: Any, cells: int) -> list[Text]:
    levels, marks = gathered(norms, kinds, cells, run.num_records - len(norms))
    lines = zip(levels.T.tolist(), marks.T.tolist(), strict=True)
    return [spark(level, mark) for level, mark in lines]


def _left_out(rows: Sequence[LiveRow], shown: Sequence[LiveRow]) -> Text:
    rest = [row for row in rows if row not in shown]
    sick = sum(row.state.rank < WELL for row in rest)
    detail = f"{sick:,} of them not well" if sick else "all well"
    return Text(f"and {len(rest):,} more, {detail}", _DIM)


def _findings(
    run: Run, console: Console, width: int, height: int
) -> list[RenderableType]:
    """Returns the findings, the first ones first, in at most a third of the height."""
    many = len(run.findings)
    if not many:
        return []
    room = max(2, height // 3)
    each = 2 if 2 * many < room else 1
    lines: list[RenderableType] = [Text(counted(many, "finding"), _BOLD)]
    for index, finding in enumerate(run.findings):
        text = Text(f"▲ {finding_line(finding)}")
        text.stylize(f"bold {VERMILION}", 0, 2 + len(str(finding.get("symptom", ""))))
        rows = _in_rows(text, console, width, each)
        if len(lines) + len(rows) + (many - index > 1) > room:
            lines.append(Text(f"and {many - index:,} more", _DIM))
            break
        lines += rows
    return lines


def _in_rows(text: Text, console: Console, width: int, most: int) -> list[Text]:
    """Returns the text in at most `most` rows, the last of them cut off."""
    rows = list(text.wrap(console, width))
    if len(rows) <= most:
        return rows
    start = 0
    for row in rows[:most]:
        start = text.plain.index(row.plain.strip(), start)
    return [*rows[: most - 1], _cropped(text[start:], width)]


def _cropped(text: Text, width: int) -> Text:
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis")
    return text


def showable(text: str, encoding: str) -> str:
    """Returns the text in characters that the encoding has, cell for cell."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        known = text.translate(_ASCII)
        return "".join(c if c.isascii() else "?" * cell_len(c) for c in known)
    return text
