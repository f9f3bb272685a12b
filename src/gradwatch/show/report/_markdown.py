"""The report as Markdown: short enough for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..._errors import counted
from .._format import printable
from ._data import HEADS, ReportData, cells_of, details, title_of, when

_MOST = 40  # layers; of more the middle is left out


def markdown(runs: Sequence[ReportData], title: str) -> Iterator[str]:
    """Yields the lines of the report as Markdown."""
    yield f"# {_text(title)}"
    for data in runs:
        many = len(data.findings)
        verdict = counted(many, "finding") if many else "no findings"
        yield f"\n## {_code(data.name)}: {verdict}"
        for number, finding in enumerate(data.findings, 1):
            heading = f"{number}. **{title_of(finding)}** ({_code(finding.symptom)})"
            yield f"\n{heading}, {when(finding)}"
            for head, text in details(finding, 6, _text, _code):
                yield f"   - {head}: {text}"
        if not many:
            yield f"\n{_text(data.verdict)}"
    yield "\n## What was trained\n"
    yield "| | " + " | ".join(_cell(data.name) for data in runs) + " |"
    yield "| --- |" + " --- |" * len(runs)
    for key in dict.fromkeys(key for data in runs for key in data.trained):
        cells = (_text(data.trained.get(key, "—")) for data in runs)
        yield f"| {key} | " + " | ".join(cells) + " |"
    for data in runs:
        yield f"\n## Layers of {_code(data.name)}\n"
        yield f"| weight | {' | '.join(HEADS)} |"
        yield "| --- |" + " ---: |" * len(HEADS)
        texts = [(_cell(layer["name"]), *cells_of(layer)) for layer in data.layers]
        rows = [f"| {' | '.join(row)} |" for row in texts]
        if len(rows) > _MOST:
            half = _MOST // 2
            rows[half:-half] = [f"| … {len(rows) - _MOST:,} more … | | | | | | |"]
        yield from rows
    yield ""  # the file ends with a line end


def _text(text: str) -> str:
    """Returns words in which nothing is Markdown, and nothing is HTML."""
    return re.sub(r"([\\`*_{}\[\]<>|#&~])", r"\\\1", printable(text))


def _code(text: str) -> str:
    """Returns a name as code: not even HTML is anything else in there."""
    text = printable(text)
    most = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (most + 1)
    space = " " if most else ""
    return f"{fence}{space}{text}{space}{fence}"


def _cell(text: str) -> str:
    """Returns `_code` for a table: only there a bar ends something, even in code."""
    return _code(text).replace("|", "\\|")
