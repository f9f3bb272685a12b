"""The picture: a headline, the layers, the findings; as wide and high as its place."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..._errors import counted
from .._cells import MOSTLY_ZERO
from .._fold import fold, middle
from .._format import number, percent, printable
from ..palette import GREEN, TONES, VERMILION
from ._lines import (
    WELL,
    Line,
    finding_line,
    history,
    lines_of,
    totals_history,
    worst_first,
)
from ._live import LiveRun
from ._spark import FINITE, MARKS, ZERO, gathered, spark

_GAP = 2
_NAME, _SPARK = 14, 8  # cells that they have at least
_LONG_SPARK = 40
_QUIET = 10.0  # seconds without a record after which that is said
_BOLD, _DIM = TONES["heading"].terminal, TONES["dim"].terminal

# For terminals that know ASCII only. One cell for one.
_ASCII = str.maketrans("▁▂▃▄▅▆▇█●▲✖○■…—─━·−∞", "..:-=+*#o!x0#~---.-i")


@dataclass(frozen=True)
class Picture:
    """A run as it is now; a rich renderable that fits the console it is printed on.

    Attributes:
        name: What the run is called.
        live: What is known of it.
        notice: A line below, for what is odd.
        height: How many lines it may have; those of the console without.
    """

    name: str
    live: LiveRun
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
        live = self.live
        lines = lines_of(live.store)
        yield _headline(self.name, live, width)
        yield _global_norm(live, width)
        told = _findings(live, console, width, height)
        below = len(told) + bool(told) + bool(self.notice)
        room = max(1, height - 5 - below)  # headline, blank, head of the table
        if lines:
            yield Text("")
            shown = lines
            if len(lines) > room:
                shown = worst_first(lines)[: max(1, room - 1)]
            yield _table(live, shown, width)
            if len(shown) < len(lines):
                yield _cropped(_left_out(lines, shown), width)
        if told:
            yield Text("")
        yield from told
        if self.notice:
            yield _cropped(Text(printable(self.notice), _BOLD), width)


def _headline(name: str, live: LiveRun, width: int) -> Text:
    parts = []
    if live.records:
        parts.append(f"step {live.store.last:,}")
        parts.append(counted(live.records, "record"))
    if live.pace is not None:
        parts.append(f"{number(live.pace, 3)} steps/s")
    share = live.notes.get("overhead", {}).get("share")
    if share is not None:
        parts.append(f"overhead {percent(share)} %")
    sign, words, style = _how(live)
    end = Text(f"{sign} {words}", style)
    middle = Text("  ".join(["", *parts, ""]), no_wrap=True)
    room = max(8, width - middle.cell_len - end.cell_len)
    shown = printable(name)
    head = Text(fold([shown], room)[shown], _BOLD, no_wrap=True)
    return _cropped(Text.assemble(head, middle, end), width)


def _how(live: LiveRun) -> tuple[str, str, str]:
    if live.store.ended:
        return "■", "ended", _BOLD
    quiet = 0.0 if live.heard is None else time.monotonic() - live.heard
    if not live.records:
        return "○", "no record yet", _DIM
    if quiet > _QUIET:
        return "○", f"no record for {quiet:,.0f} s", VERMILION
    return "●", "live", GREEN


def _global_norm(live: LiveRun, width: int) -> Text:
    """Returns the norm of all gradients together, and the loss."""
    if not len(live.store):
        return Text("")
    chunk, at = live.store.at(len(live.store) - 1)
    last = chunk.totals_at(at)
    text = Text("global norm ", no_wrap=True)
    norms, kinds = totals_history(live.store, "global_norm")
    kind = int(kinds[-1, 0])
    style = "none" if kind in (FINITE, ZERO) else MARKS[kind][1]
    text.append(number(last.get("global_norm"), 3), style)
    loss = Text(f"  loss {number(last['loss'], 3)}" if "loss" in last else "")
    if "learning_rate" in last and width >= 80:
        loss.append(f"  learning rate {number(last['learning_rate'], 3)}")
    room = min(_LONG_SPARK, width - text.cell_len - loss.cell_len - 1)
    if room >= _SPARK:
        before = live.records - len(norms)
        past = gathered(norms, kinds, room, before)
        text.append(" ")
        text.append_text(spark(past.levels[:, 0].tolist(), past.kinds[:, 0].tolist()))
    text.append_text(loss)
    return _cropped(text, width)


def _table(live: LiveRun, lines: Sequence[Line], width: int) -> Table:
    wide, wider = width >= 50, width >= 64
    columns = [("norm", [number(line.norm, 3) for line in lines])]
    if wider:
        heading = "update ratio" if width >= 90 else "ratio"
        columns.append((heading, [number(line.ratio, 3) for line in lines]))
    if wide:
        columns.append(("% zero", [percent(line.zeros) for line in lines]))
    states = [f"{line.state.sign} {line.state.words}" for line in lines]
    sizes = [_widest(head, words) for head, words in columns]
    last = min(_widest("state", states), max(8, width // 4))
    names = [printable(line.name) for line in lines]
    room = width - sum(sizes) - last - _GAP * (len(columns) + 2)
    name = min(_widest("layer", names), max(_NAME, room - 2 * _SPARK))
    curve = min(_LONG_SPARK, room - name)
    sparks = _sparks(live, lines, curve) if curve >= _SPARK else None
    if sparks is None:
        name = max(_NAME, room + _GAP)
    folded = fold(names, name)
    table = _frame()
    table.add_column("layer", width=name, no_wrap=True)
    if sparks is not None:
        table.add_column("recent norm", width=curve, no_wrap=True)
    for (head, _), size in zip(columns, sizes, strict=True):
        table.add_column(head, width=size, justify="right", no_wrap=True)
    table.add_column("state", width=last, no_wrap=True, overflow="ellipsis")
    for row, line in enumerate(lines):
        # A line has no room to wrap: at worst two addresses look alike.
        cells = [Text(middle(folded[names[row]], name), no_wrap=True)]
        cells += [sparks[row]] if sparks is not None else []
        cells += [
            Text(words[row], _style(head, line), no_wrap=True)
            for head, words in columns
        ]
        cells.append(Text(states[row], line.state.style, overflow="ellipsis"))
        table.add_row(*cells)
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


def _style(head: str, line: Line) -> str:
    if head == "norm" and line.kind not in (FINITE, ZERO):
        return MARKS[line.kind][1]
    if head == "% zero" and line.zeros is not None and line.zeros >= MOSTLY_ZERO:
        return VERMILION
    return "none"


def _sparks(live: LiveRun, lines: Sequence[Line], cells: int) -> list[Text]:
    norms, kinds = history(live.store, [line.name for line in lines])
    past = gathered(norms, kinds, cells, live.records - len(norms))
    levels, marks = past.levels.T.tolist(), past.kinds.T.tolist()
    return [spark(a, b) for a, b in zip(levels, marks, strict=True)]


def _left_out(lines: Sequence[Line], shown: Sequence[Line]) -> Text:
    rest = {line.place for line in lines} - {line.place for line in shown}
    sick = sum(line.place in rest and line.state.rank < WELL for line in lines)
    detail = f"{sick:,} of them not well" if sick else "all well"
    return Text(f"and {len(rest):,} more, {detail}", _DIM)


def _findings(
    live: LiveRun, console: Console, width: int, height: int
) -> list[RenderableType]:
    """Returns the findings, the first ones first, in at most a third of the height."""
    if not live.store.findings:
        return []
    room = max(2, height // 3)
    each = 2 if 2 * len(live.store.findings) < room else 1
    found: list[RenderableType] = [
        Text(counted(len(live.store.findings), "finding"), _BOLD)
    ]
    for told, finding in enumerate(live.store.findings):
        left = len(live.store.findings) - told
        text = Text(f"▲ {finding_line(finding)}")
        text.stylize(f"bold {VERMILION}", 0, 2 + len(str(finding.get("symptom", ""))))
        rows = _in_rows(text, console, width, each)
        if len(found) + len(rows) + (left > 1) > room:
            found.append(Text(f"and {left:,} more", _DIM))
            break
        found += rows
    return found


def _in_rows(text: Text, console: Console, width: int, most: int) -> list[Text]:
    """Returns the text in at most so many rows, the last of them cut off."""
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
