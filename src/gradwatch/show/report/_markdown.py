"""The report as Markdown: short enough for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..._errors import counted
from ...diagnose import SYMPTOMS, Finding
from .._format import number, percent, printable
from ._told import HEADS, Layer, Told, seen, until

_MOST = 40  # layers; of more the middle is left out


def markdown(runs: Sequence[Told], title: str) -> str:
    """Returns the report as Markdown."""
    return "\n".join(_lines(runs, title)) + "\n"


def _lines(runs: Sequence[Told], title: str) -> Iterator[str]:
    yield f"# {_text(title)}"
    for told in runs:
        many = len(told.findings)
        verdict = counted(many, "finding") if many else "no findings"
        yield ""
        yield f"## {_code(told.name)}: {verdict}"
        for place, finding in enumerate(told.findings, 1):
            yield ""
            yield from _finding(place, finding)
        if not many:
            yield ""
            yield _text(told.nothing)
    yield ""
    yield "## What was trained"
    yield ""
    keys = list(dict.fromkeys(key for told in runs for key in told.trained))
    yield "| | " + " | ".join(_cell(told.name) for told in runs) + " |"
    yield "| --- |" + " --- |" * len(runs)
    for key in keys:
        cells = (_text(told.trained.get(key, "—")) for told in runs)
        yield f"| {key} | " + " | ".join(cells) + " |"
    yield "| watching cost | " + " | ".join(_text(t.cost) for t in runs) + " |"
    for told in runs:
        yield ""
        yield f"## Layers of {_code(told.name)}"
        yield ""
        yield f"| weight | {' | '.join(HEADS)} |"
        yield "| --- |" + " ---: |" * len(HEADS)
        yield from _layers(told.layers)


def _finding(place: int, finding: Finding) -> Iterator[str]:
    title = SYMPTOMS.get(finding.symptom, finding.symptom)
    title = title[:1].upper() + title[1:]
    yield (
        f"{place}. **{title}** ({_code(finding.symptom)}), since step {finding.since:,}"
        f"{until(finding)}"
    )
    if finding.addresses:
        some = ", ".join(_code(name) for name in finding.addresses[:6])
        more = len(finding.addresses) - 6
        yield f"   - Where: {some}{f' and {more} more' if more > 0 else ''}"
    if finding.evidence:
        yield f"   - Evidence: {_prose(seen(finding))}"
    if finding.healthy:
        yield f"   - Healthy: {_prose(finding.healthy)}"
    if finding.excluded:
        yield f"   - It is not: {_prose('; '.join(finding.excluded))}"
    if finding.try_first:
        yield f"   - Try first: {_prose(finding.try_first)}"


def _layers(layers: Sequence[Layer]) -> Iterator[str]:
    half = _MOST // 2
    for place, layer in enumerate(layers):
        if len(layers) > _MOST and place == half:
            yield f"| … {len(layers) - 2 * half:,} more … | | | | | | |"
        if len(layers) > _MOST and half <= place < len(layers) - half:
            continue
        norms = (number(n) for n in (layer.first, layer.last, layer.largest))
        bad = counted(layer.bad, "record") if layer.bad else "—"
        cells = (*norms, number(layer.ratio), percent(layer.zeros), bad)
        yield f"| {_cell(layer.name)} | " + " | ".join(cells) + " |"


def _prose(text: str) -> str:
    """Returns words in which what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _text(text)
    return "".join(
        _code(part) if place % 2 else _text(part) for place, part in enumerate(parts)
    )


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
    """As `_code`, in a table: only there a bar ends something, even in code."""
    return _code(text).replace("|", "\\|")
