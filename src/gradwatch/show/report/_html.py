"""The report as one self-contained page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape

from ..._errors import counted
from ...diagnose import Finding
from .._format import percent, printable
from ..palette import THEMES
from ..static import REPORT, SCRIPT
from ._data import HEADS, Layer, ReportData, cells_of, details, title_of, when
from ._embed import embedded

_DARK = f"{THEMES['dark'].css} color-scheme: dark;"
_COLOURS = (
    f":root {{ {THEMES['light'].css} }}\n"
    f':root[data-theme="dark"] {{ {_DARK} }}\n'
    "@media (prefers-color-scheme: dark) "
    f"{{ :root:not([data-theme]) {{ {_DARK} }} }}\n"
)


def html(runs: Sequence[ReportData], title: str) -> str:
    """Returns the page. It loads nothing, and all text in it is escaped."""
    script = SCRIPT.read_text(encoding="utf-8")
    style = _COLOURS + REPORT.read_text(encoding="utf-8")
    return "\n".join(_page(runs, title, script, style)) + "\n"


def _page(
    runs: Sequence[ReportData], title: str, script: str, style: str
) -> Iterator[str]:
    # The browser itself then refuses any request, and any script but ours.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; "
        "style-src 'unsafe-inline'; img-src data: blob:"
    )
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_words(title)}</title>"
    yield f"<style>{style}</style>\n</head>\n<body>"
    yield '<div class="report">'
    yield f"<h1>{_words(title)}</h1>"
    yield f'<p class="verdict">{_verdict(runs)}</p>'
    yield '<section><h2 class="over">Findings</h2>'
    for index, data in enumerate(runs):
        yield from _findings(index, data, named=len(runs) > 1)
    yield "</section>"
    yield '<section><h2 class="over">What was trained</h2>'
    yield from _trained(runs)
    yield "</section></div>"
    yield '<div id="gradwatch-charts"><noscript>The charts need JavaScript.</noscript>'
    yield "</div>"
    yield '<div class="report"><section>'
    for data in runs:
        yield from _layers(data, named=len(runs) > 1)
    yield "</section>"
    yield "<footer>Numbers are of the unscaled gradient before clipping, over what is "
    yield "finite. Of several steps in one column of a chart the largest is shown; NaN "
    yield "and ∞ are shown wherever one is.</footer></div>"
    yield (
        f'<script type="application/octet-stream" id="gradwatch-data">'
        f"{embedded(runs)}</script>"
    )
    yield f'<script type="module">{script}</script>\n</body>\n</html>'


def _verdict(runs: Sequence[ReportData]) -> str:
    many = sum(len(data.findings) for data in runs)
    if not many:
        if not all(data.enough for data in runs):
            return "<b>Too little to judge.</b>"
        return '<b class="good">Healthy.</b> Nothing was found to be wrong.'
    sick = sum(bool(data.findings) for data in runs)
    where = f" in {sick} of {len(runs)} runs" if len(runs) > 1 else ""
    return f'<b class="bad">{counted(many, "finding")}</b>{where}.'


def _findings(run: int, data: ReportData, *, named: bool) -> Iterator[str]:
    if named:
        yield f"<h3>{_code(data.name)}</h3>"
    if not data.findings:
        yield f'<p class="quiet">{_words(data.verdict)}</p>'
    for index, finding in enumerate(data.findings):
        yield from _finding(run, index, finding)


def _finding(run: int, index: int, finding: Finding) -> Iterator[str]:
    yield '<article class="finding">'
    yield (
        f'<button type="button" hidden data-run="{run}" data-finding="{index}">'
        "Show in the charts</button>"
    )
    yield f"<h4>{_words(title_of(finding))}</h4>"
    yield (
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


def _layers(data: ReportData, *, named: bool) -> Iterator[str]:
    of = f" of {_code(data.name)}" if named else ""
    yield f"<details><summary>All {len(data.layers):,} weights{of} in numbers</summary>"
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("weight", *HEADS))
    yield f'<table class="layers"><thead><tr>{heads}</tr></thead><tbody>'
    yield from map(_layer, data.layers)
    yield "</tbody></table></details>"


def _layer(layer: Layer) -> str:
    *cells, bad = map(_words, cells_of(layer))
    alarm = ' class="bad"' if layer["bad"] else ""
    numbers = "".join(f"<td>{cell}</td>" for cell in cells)
    name = f'<th scope="row">{_code(layer["name"])}</th>'
    return f"<tr>{name}{numbers}<td{alarm}>{bad}</td></tr>"


def _words(text: str) -> str:
    return escape(printable(text))


def _code(text: str) -> str:
    return f"<code>{_words(text)}</code>"
