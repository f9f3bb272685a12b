"""The picture: a headline, the layers, the findings; it fits its console."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..._errors import counted
from ...run import Run
from .._cells import MOSTLY_ZERO
from .._fold import fold, middle
from .._format import number, percent, printable
from .._rich import GAP, bare_table
from ..charts import NUMBER, ZERO, Heat, curves
from ..palette import GREEN, TONES, VERMILION
from ._rows import KEPT, WELL, LiveRow, finding_line, history, rows_of
from ._spark import MARKS, gathered, spark

_NAME, _SPARK = 14, 8  # least number of cells
_LONG_SPARK = 40
_ARRIVALS = 16  # from which the pace is computed
_QUIET = 10.0  # seconds without a record after which the headline says so
_SHOWN = ("global_norm", "loss", "learning_rate")
_BOLD, _DIM = TONES["heading"], TONES["dim"]
_SICK = f"bold {VERMILION}"
# A sign tells the state of a row, by its rank, without the colour.
_SIGNS = "✖▲✖○·●"
_STYLES = {1: _SICK, 2: _SICK, 3: VERMILION, 4: _DIM, WELL: GREEN}

# For terminals that have ASCII only; the number of cells stays the same.
_ASCII = str.maketrans("▁▂▃▄▅▆▇█●▲✖○■…—─━·−∞", "..:-=+*#o!x0#~---.-i")


class Picture:
    """A run as it is now; a rich renderable that fits the console it is printed on.

    Attributes:
        run: The run.
        notice: A line below, for what is unusual.
        damage: The last warning about a damaged file.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.notice = self.damage = ""
        self._restarts = 0
        # When the newest records were read, by the monotonic clock, and their steps.
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=_ARRIVALS)

    def refresh(self) -> bool:
        """Reads what is new, for a short time; returns whether that was all."""
        run, trouble, everything = self.run, "", True
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                everything = run.refresh(0.25)
            except OSError as error:
                trouble = f"{str(run.directory)!r} cannot be read: {error.strerror}."
        if caught:
            self.damage = str(caught[-1].message)
        elif run.deleted and not run.num_records:
            self.damage = ""  # the file that was damaged is gone
        waiting = not run.num_records and not run.ended
        self.notice = trouble or self.damage or (_waits_for(run) if waiting else "")
        if run.restarts != self._restarts:
            self._restarts = run.restarts
            self._arrivals.clear()
        newest = self._arrivals[-1][1] if self._arrivals else None
        if everything and len(run.store) and run.store.last != newest:
            self._arrivals.append((time.monotonic(), run.store.last))
        return everything

    def _steps_per_second(self) -> float | None:
        """Returns the pace: of the whole training at its end, else of late."""
        cost = self.run.notes.get("overhead", {})
        if self.run.ended and cost.get("seconds"):
            return float(cost["steps"]) / float(cost["seconds"])
        if len(self._arrivals) < 3:  # the first was written before it could be read
            return None
        (then, first), (now, last) = self._arrivals[0], self._arrivals[-1]
        return (last - first) / (now - then) if now > then else None

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Yields the parts, in characters that the console can show."""
        height = options.height or console.size.height
        one_line = options.update(no_wrap=True, overflow="ellipsis").reset_height()
        for part in self._parts(console, options.max_width, height):
            for text, style, control in console.render(part, one_line):
                yield Segment(showable(text, console.encoding), style, control)

    def _parts(self, console: Console, width: int, height: int) -> Iterator[Any]:
        rows = rows_of(self.run)
        yield self._headline(width)
        yield _global_norm(self.run, width)
        findings = _findings(self.run, console, width, height)
        below = len(findings) + bool(findings) + bool(self.notice)
        room = max(1, height - 5 - below)  # headline, blank, head of the table
        if rows:
            yield Text("")
            worst_first = sorted(rows, key=lambda row: row.rank)
            shown = worst_first[: max(1, room - 1)] if len(rows) > room else rows
            yield _table(self.run, shown, width)
            if len(shown) < len(rows):
                rest = [row for row in rows if row not in shown]
                sick = sum(row.rank < WELL for row in rest)
                detail = f"{sick:,} of them not well" if sick else "all well"
                yield Text(f"and {len(rest):,} more, {detail}", _DIM)
        if findings:
            yield Text("")
        yield from findings
        if self.notice:
            yield Text(printable(self.notice), _BOLD)

    def _headline(self, width: int) -> Text:
        run, parts, end = self.run, [""], Text(*self._status())
        if run.num_records:
            parts += [f"step {run.store.last:,}", counted(run.num_records, "record")]
        if (speed := self._steps_per_second()) is not None:
            parts.append(f"{number(speed, 3)} steps/s")
        if (share := run.notes.get("overhead", {}).get("share")) is not None:
            parts.append(f"overhead {percent(share)} %")
        facts = Text("  ".join([*parts, ""]))
        room = max(8, width - facts.cell_len - end.cell_len)
        shown = printable(str(run.directory))
        return Text.assemble((fold([shown], room)[shown], _BOLD), facts, end)

    def _status(self) -> tuple[str, str]:
        """Returns the state of the training, and its style."""
        quiet = time.monotonic() - self._arrivals[-1][0] if self._arrivals else 0.0
        if self.run.ended:
            return "■ ended", _BOLD
        if not self.run.num_records:
            return "○ no record yet", _DIM
        if quiet > _QUIET:
            return f"○ no record for {quiet:,.0f} s", VERMILION
        return "● live", GREEN


def _waits_for(run: Run) -> str:
    name = repr(str(run.directory))
    if run.deleted:
        return f"{name} was deleted or cut short. Waiting for it to be written."
    what = "the first record of" if run.directory.is_dir() else "the run"
    return f"Waiting for {what} {name}. Ctrl-C ends this."


def _global_norm(run: Run, width: int) -> Text:
    """Returns the norm of all gradients together, and the loss."""
    if not len(run.steps):
        return Text("")
    steps = run.steps[-KEPT:]
    drawn = curves(run, (steps[0], steps[-1]), None)[0].only([0])
    norm, last, rate = (getattr(run.totals, n)[-1:].tolist()[0] for n in _SHOWN)
    style = _style_of(int(drawn.states[0, -1]))
    text = Text.assemble("global norm ", (number(norm, 3), style))
    loss = Text("" if last is None else f"  loss {number(last, 3)}")
    if rate is not None and width >= 80:
        loss.append(f"  learning rate {number(rate, 3)}")
    room = min(_LONG_SPARK, width - text.cell_len - loss.cell_len - 1)
    if room >= _SPARK:
        text = Text.assemble(text, " ", *_sparks(run, drawn, room))
    return text.append_text(loss)


def _table(run: Run, rows: Sequence[LiveRow], width: int) -> Table:
    columns = {"norm": [Text(number(r.norm, 3), _style_of(r.state)) for r in rows]}
    if width >= 64:
        heading = "update ratio" if width >= 90 else "ratio"
        columns[heading] = [Text(number(row.ratio, 3)) for row in rows]
    if width >= 50:
        mostly = [VERMILION if (r.zeros or 0) >= MOSTLY_ZERO else "none" for r in rows]
        columns["% zero"] = list(map(Text, (percent(r.zeros) for r in rows), mostly))
    columns["state"] = [
        Text(f"{_SIGNS[r.rank]} {r.words}", _STYLES.get(r.rank) or _style_of(r.state))
        for r in rows
    ]
    sizes = {
        h: max(cell_len(h), *(t.cell_len for t in ts)) for h, ts in columns.items()
    }
    sizes["state"] = min(sizes["state"], max(8, width // 4))
    names = [printable(row.name) for row in rows]
    room = width - sum(sizes.values()) - GAP * (len(columns) + 1)
    name = min(max(map(cell_len, ("layer", *names))), max(_NAME, room - 2 * _SPARK))
    curve = min(_LONG_SPARK, room - name)
    if curve < _SPARK:
        name = max(_NAME, room + GAP)
    folded = fold(names, name)
    # A row has no room to wrap: at worst two addresses look alike.
    first = {"layer": [Text(middle(folded[n], name)) for n in names]}
    sizes |= {"layer": name, "recent norm": curve}
    if curve >= _SPARK:
        recent = history(run)
        drawn = recent.only([recent.names.index(row.name) for row in rows])
        first["recent norm"] = _sparks(run, drawn, curve)
    table = bare_table(box.SIMPLE_HEAD)
    columns = first | columns
    for head in columns:
        left = head in first or head == "state"
        side: Literal["left", "right"] = "left" if left else "right"
        table.add_column(head, width=sizes[head], justify=side, no_wrap=True)
    for line in zip(*columns.values(), strict=True):
        table.add_row(*line)
    return table


def _style_of(state: int) -> str:
    return "none" if state in (NUMBER, ZERO) else MARKS[state][1]


def _sparks(run: Run, drawn: Heat, cells: int) -> list[Text]:
    before = run.num_records - len(drawn.first)
    levels, marks = gathered(drawn.values.T, drawn.states.T, cells, before)
    lines = zip(levels.T.tolist(), marks.T.tolist(), strict=True)
    return [spark(level, mark) for level, mark in lines]


def _findings(run: Run, console: Console, width: int, height: int) -> list[Text]:
    """Returns the findings, the first ones first, in at most a third of the height."""
    many = len(run.findings)
    if not many:
        return []
    room = max(2, height // 3)
    each = 2 if 2 * many < room else 1
    lines = [Text(counted(many, "finding"), _BOLD)]
    for index, finding in enumerate(run.findings):
        text = Text(f"▲ {finding_line(finding)}")
        text.stylize(_SICK, 0, 2 + len(str(finding.get("symptom", ""))))
        rows = list(text.wrap(console, width))
        rest = rows[each - 1 :]
        rows[each - 1 :] = [Text(" ").join(rest)] if rest else []
        if len(lines) + len(rows) + (many - index > 1) > room:
            lines.append(Text(f"and {many - index:,} more", _DIM))
            break
        lines += rows
    return lines


def showable(text: str, encoding: str) -> str:
    """Returns the text in characters that the encoding has, cell for cell."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        known = text.translate(_ASCII)
        return "".join(c if c.isascii() else "?" * cell_len(c) for c in known)
    return text
