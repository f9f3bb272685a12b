"""The report as one self-contained page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from string import Template

from ..._errors import counted
from .._format import percent, printable
from ..palette import THEMES
from ..static import STATIC
from ._data import HEADS, ReportData, cells_of, details, title_of, when
from ._embed import embedded


def html(runs: Sequence[ReportData], title: str) -> str:
    """Returns the page. It loads nothing, and all text in it is escaped."""
    files = ("report.html", "report.css", "gradwatch.js")
    page, style, script = ((STATIC / f).read_text(encoding="utf-8") for f in files)
    # The browser itself then refuses any request, and any script but ours.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    named = len(runs) > 1
    parts = {
        "title": [_words(title)],
        "verdict": [_verdict(runs)],
        "findings": [x for run in enumerate(runs) for x in _findings(*run, named)],
        "trained": _trained(runs),
        "layers": [line for data in runs for line in _layers(data, named)],
    }
    whole = {name: "\n".join(lines) for name, lines in parts.items()}
    whole |= {name: theme.css for name, theme in THEMES.items()}
    whole |= {"style": style, "script": script, "digest": digest}
    return Template(page).substitute(whole, data=embedded(runs))


def _verdict(runs: Sequence[ReportData]) -> str:
    many = sum(len(data.findings) for data in runs)
    if not many:
        if not all(data.enough for data in runs):
            return "<b>Too little to judge.</b>"
        return '<b class="good">Healthy.</b> Nothing was found to be wrong.'
    sick = sum(bool(data.findings) for data in runs)
    where = f" in {sick} of {len(runs)} runs" if len(runs) > 1 else ""
    return f'<b class="bad">{counted(many, "finding")}</b>{where}.'


def _findings(run: int, data: ReportData, named: bool) -> Iterator[str]:
    if named:
        yield f"<h3>{_code(data.name)}</h3>"
    if not data.findings:
        yield f'<p class="quiet">{_words(data.verdict)}</p>'
    for index, finding in enumerate(data.findings):
        yield (
            '<article class="finding">\n'
            f'<button type="button" hidden data-run="{run}" data-finding="{index}">'
            f"Show in the charts</button>\n<h4>{_words(title_of(finding))}</h4>\n"
            f'<p class="quiet">{_words(finding.symptom)} · {when(finding)}, '
            f"confirmed at step {finding.step:,} · confidence "
            f"{_words(percent(finding.confidence))} %</p><dl>"
        )
        for head, text in details(finding, 12, _words, _code):
            yield f"<dt>{head}</dt><dd>{text}</dd>"
        yield "</dl></article>"


def _trained(runs: Sequence[ReportData]) -> Iterator[str]:
    yield '<table class="facts">'
    if len(runs) > 1:
        heads = "".join(f'<th scope="col">{_code(data.name)}</th>' for data in runs)
        yield f"<thead><tr><td></td>{heads}</tr></thead>"
    for key in dict.fromkeys(key for data in runs for key in data.trained):
        cells = "".join(f"<td>{_words(d.trained.get(key, '—'))}</td>" for d in runs)
        yield f'<tr><th scope="row">{key}</th>{cells}</tr>'
    yield "</table>"


def _layers(data: ReportData, named: bool) -> Iterator[str]:
    of = f" of {_code(data.name)}" if named else ""
    yield f"<details><summary>All {len(data.layers):,} weights{of} in numbers</summary>"
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("weight", *HEADS))
    yield f'<table class="layers"><thead><tr>{heads}</tr></thead><tbody>'
    for layer in data.layers:
        *cells, bad = map(_words, cells_of(layer))
        alarm = ' class="bad"' if layer["bad"] else ""
        numbers = "".join(f"<td>{cell}</td>" for cell in cells)
        name = f'<th scope="row">{_code(layer["name"])}</th>'
        yield f"<tr>{name}{numbers}<td{alarm}>{bad}</td></tr>"
    yield "</tbody></table></details>"


def _words(text: str) -> str:
    return escape(printable(text))


def _code(text: str) -> str:
    return f"<code>{_words(text)}</code>"
