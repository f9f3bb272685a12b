"""The report as one self-contained page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape

from ..._errors import counted
from ...diagnose import SYMPTOMS, Finding
from .._format import number, percent, printable
from ..static import SCRIPT, STYLE
from ._embed import embedded
from ._told import HEADS, Layer, Told, seen, until


def html(runs: Sequence[Told], title: str) -> str:
    """Returns the page. It loads nothing, and every word in it is escaped."""
    script = SCRIPT.read_text(encoding="utf-8")
    style = STYLE.read_text(encoding="utf-8")
    return "\n".join(_page(runs, title, script, style)) + "\n"


def _page(runs: Sequence[Told], title: str, script: str, style: str) -> Iterator[str]:
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
    for place, told in enumerate(runs):
        yield from _findings(place, told, named=len(runs) > 1)
    yield "</section>"
    yield '<section><h2 class="over">What was trained</h2>'
    yield from _trained(runs)
    yield "</section></div>"
    yield '<div id="gradwatch-charts"><noscript>The charts need JavaScript.</noscript>'
    yield "</div>"
    yield '<div class="report"><section>'
    for told in runs:
        yield from _layers(told, named=len(runs) > 1)
    yield "</section>"
    yield "<footer>Numbers are of the unscaled gradient before clipping, over what is "
    yield "finite. Of several steps in one column of a chart the largest is shown; NaN "
    yield "and ∞ are shown wherever one is.</footer></div>"
    yield (
        f'<script type="application/octet-stream" id="gradwatch-data">'
        f"{embedded(runs)}</script>"
    )
    yield f'<script type="module">{script}</script>\n</body>\n</html>'


def _verdict(runs: Sequence[Told]) -> str:
    many = sum(len(told.findings) for told in runs)
    if not many:
        if not all(told.enough for told in runs):
            return "<b>Too little to judge.</b>"
        return '<b class="good">Healthy.</b> Nothing was found to be wrong.'
    places = sum(bool(told.findings) for told in runs)
    where = f" in {places} of {len(runs)} runs" if len(runs) > 1 else ""
    return f'<b class="bad">{counted(many, "finding")}</b>{where}.'


def _findings(run: int, told: Told, *, named: bool) -> Iterator[str]:
    if named:
        yield f"<h3>{_code(told.name)}</h3>"
    if not told.findings:
        yield f'<p class="quiet">{_words(told.nothing)}</p>'
    for place, finding in enumerate(told.findings):
        yield from _finding(run, place, finding)


def _finding(run: int, place: int, finding: Finding) -> Iterator[str]:
    title = SYMPTOMS.get(finding.symptom, finding.symptom)
    yield '<article class="finding">'
    yield (
        f'<button type="button" hidden data-run="{run}" data-finding="{place}">'
        "Show in the charts</button>"
    )
    yield f"<h4>{_words(title[:1].upper() + title[1:])}</h4>"
    yield (
        f'<p class="quiet">{_words(finding.symptom)} · since step {finding.since:,}'
        f"{until(finding)}, confirmed at step {finding.step:,} · confidence "
        f"{_words(percent(finding.confidence))} %</p><dl>"
    )
    some = ", ".join(_code(name) for name in finding.addresses[:12])
    more = len(finding.addresses) - 12
    some += f" and {more} more" if more > 0 else ""
    for head, text in (
        ("Where", some),
        ("Evidence", _prose(seen(finding))),
        ("Healthy", _prose(finding.healthy)),
        ("It is not", _prose("; ".join(finding.excluded))),
        ("Try first", _prose(finding.try_first)),
    ):
        if text:
            yield f"<dt>{head}</dt><dd>{text}</dd>"
    yield "</dl></article>"


def _trained(runs: Sequence[Told]) -> Iterator[str]:
    yield '<table class="facts">'
    if len(runs) > 1:
        heads = "".join(f'<th scope="col">{_code(told.name)}</th>' for told in runs)
        yield f"<thead><tr><td></td>{heads}</tr></thead>"
    keys = list(dict.fromkeys(key for told in runs for key in told.trained))
    for key in keys:
        cells = "".join(f"<td>{_words(t.trained.get(key, '—'))}</td>" for t in runs)
        yield f'<tr><th scope="row">{key}</th>{cells}</tr>'
    cells = "".join(f"<td>{_words(told.cost)}</td>" for told in runs)
    yield f'<tr><th scope="row">watching cost</th>{cells}</tr></table>'


def _layers(told: Told, *, named: bool) -> Iterator[str]:
    of = f" of {_code(told.name)}" if named else ""
    yield f"<details><summary>All {len(told.layers):,} weights{of} in numbers</summary>"
    yield '<table class="layers"><thead><tr><th scope="col">weight</th>'
    for head in HEADS:
        yield f'<th scope="col">{head}</th>'
    yield "</tr></thead><tbody>"
    for layer in told.layers:
        yield _layer(layer)
    yield "</tbody></table></details>"


def _layer(layer: Layer) -> str:
    numbers = (layer.first, layer.last, layer.largest, layer.ratio)
    cells = "".join(f"<td>{_words(number(n))}</td>" for n in numbers)
    bad = "<td>—</td>"
    if layer.bad:
        bad = f'<td class="bad">{counted(layer.bad, "record")}</td>'
    zeros = f"<td>{_words(percent(layer.zeros))}</td>"
    return f'<tr><th scope="row">{_code(layer.name)}</th>{cells}{zeros}{bad}</tr>'


def _prose(text: str) -> str:
    """Returns words in which what stands between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _words(text)
    return "".join(
        _code(part) if place % 2 else _words(part) for place, part in enumerate(parts)
    )


def _words(text: str) -> str:
    return escape(printable(text))


def _code(text: str) -> str:
    return f"<code>{_words(text)}</code>"
