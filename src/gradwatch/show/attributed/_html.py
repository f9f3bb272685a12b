"""Attributions as HTML: no script, nothing loaded, all text escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from .._format import printable
from .._html import STYLE, table_head
from ..palette import THEMES, rgb
from ._heat import STRENGTH, heated, limit_of
from ._html_lines import lines_html, notes
from ._panel import Panel, grouped, left_out, number, silent
from ._png import data_url
from ._ranked import Bar, charts

_LIGHT = THEMES["light"]
_SIDE = 168  # pixels of the longer side of a picture


def panels_html(panels: Sequence[Panel], *, title: str) -> str:
    """Returns the panels as one self-contained piece of HTML.

    Example:
    >>> values = np.array([[0.5, -1.0]])
    >>> words = [["<b>", "bad"]]
    >>> panel = Panel("tokens", "embed", "saliency", values, None, words, ["2.1"])
    >>> "&lt;b&gt;" in panels_html([panel], title="why")
    True

    Args:
        panels: The panels to show.
        title: The line above everything.
    """
    lines = [
        '<div class="gradwatch">',
        f"<style>{STYLE}</style>",
        f"<p><strong>{escape(title)}</strong></p>",
    ]
    kinds = {"tokens": _tokens, "bars": _bars, "lines": lines_html}
    for group in grouped(panels):
        kind = group[0].kind
        lines += _images(group) if kind == "image" else kinds[kind](group[0])
    return "\n".join([*lines, "</div>"])


def _images(panels: Sequence[Panel]) -> Iterator[str]:
    first = panels[0]
    heads = ["", "input", *(panel.heading for panel in panels)]
    head = table_head((text, "left") for text in heads)
    yield f'<table class="pictures">{head}<tbody>'
    for row, caption in enumerate(first.captions):
        whole = first.base[row]
        plain = np.repeat(whole[..., None], 3, axis=-1) if whole.ndim == 2 else whole
        yield f"<tr><td>{escape(caption)}</td>"
        yield f"<td>{_picture(plain, f'The input of {caption}')}</td>"
        for panel in panels:
            values = panel.values[row]
            limit, note = limit_of(values), silent(values)
            words = note
            if not note:
                note = _ends(limit, panel) if limit else ""
                sizes = np.where(np.isfinite(values), np.abs(values), -1.0)
                y, x = np.unravel_index(int(sizes.argmax()), sizes.shape)
                words = f"strongest at row {y}, column {x}, {number(values[y, x])}"
            text = f"The attribution of {caption} by {panel.heading}: {words}"
            image = _picture(heated(whole, values, panel, _LIGHT), text)
            yield f"<td>{image}{''.join(notes(values, note, 'div'))}</td>"
        yield "</tr>"
    yield "</tbody></table>"


def _picture(pixels: np.ndarray, text: str) -> str:
    tall, wide = pixels.shape[:2]
    # Small pictures are shown large, in whole pixels; large ones as they are.
    width = max(1, round(_SIDE * wide / max(tall, wide)))
    return f'<img src="{data_url(pixels)}" alt="{escape(text)}" width="{width}">'


def _ends(limit: float, panel: Panel) -> str:
    """Returns the ends of a scale."""
    return f"±{limit:.3g}" if panel.signed else f"0 to {limit:.3g}"


def _tokens(panel: Panel) -> Iterator[str]:
    limit = limit_of(panel.values)
    head = f"{escape(panel.heading)}, {_ends(limit, panel)}"
    rows = zip(panel.captions, panel.labels, panel.values, strict=True)
    for caption, words, values in rows:
        yield f'<p class="dim">{escape(caption)} · {head}</p>'
        shown = {i: word for i, word in enumerate(map(printable, words)) if word}
        spans = [_token(word, float(values[i]), limit) for i, word in shown.items()]
        yield f'<p class="tokens">{" ".join(spans)}</p>'
        said = filter(None, (silent(values), left_out(values, shown.keys())))
        yield from notes(values, "; ".join(said))


def _token(word: str, value: float, limit: float) -> str:
    if not np.isfinite(value):
        return f'<strong class="alarm" title="{value}">{escape(word)}</strong>'
    # See-through, so that it suits any page; below 0.75, so that any ink can be read.
    strength = 0.75 * min(1.0, abs(value) / (limit or 1.0)) ** STRENGTH
    colour = rgb(_LIGHT.positive if value >= 0 else _LIGHT.negative) * 255
    ground = f"rgba({','.join(f'{channel:.0f}' for channel in colour)},{strength:.2f})"
    style = f'title="{number(value)}" style="background:{ground}"'
    return f"<span {style}>{escape(word)}</span>"


def _bars(panel: Panel) -> Iterator[str]:
    heads = ("feature", "value", "against", "for", panel.heading)
    sides = ("left", "right", "right", "left", "right")
    head = table_head(zip(heads, sides, strict=True))
    rows = zip(panel.captions, panel.values, charts(panel), strict=True)
    for caption, values, bars in rows:
        sizes = [abs(bar.value) for bar in bars if np.isfinite(bar.value)]
        yield f"<table>\n<caption>{escape(caption)}</caption>\n{head}<tbody>"
        for bar in bars:
            yield _bar(bar, max([*sizes, 0.0]) or 1.0)
        yield "</tbody></table>"
        yield from notes(values, silent(values))


def _bar(bar: Bar, reach: float) -> str:
    words, tone, span = f"<strong>{bar.value}</strong>", "alarm", ""
    side = "neg" if bar.value < 0 else "pos"
    if np.isfinite(bar.value):
        words, tone = number(bar.value), "dim" if bar.rest else "plain"
        width = 7 * abs(bar.value) / reach
        span = f'<span class="{side}" style="width:{width:.2f}em"></span>'
    sides = {"neg": "", "pos": "", side: span}
    return (
        f'<tr><td class="left {tone}">{escape(bar.name)}</td>'
        f'<td class="right dim">{escape(bar.feature)}</td>'
        f'<td class="right half">{sides["neg"]}</td>'
        f'<td class="left half">{sides["pos"]}</td>'
        f'<td class="right {tone}">{words}</td></tr>'
    )
