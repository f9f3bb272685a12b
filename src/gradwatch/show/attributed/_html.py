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
    yield '<table class="pictures"><thead><tr>'
    yield "".join(f'<th scope="col" class="left">{escape(head)}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    for row, caption in enumerate(first.captions):
        whole = first.base[row]
        plain = np.repeat(whole[..., None], 3, axis=-1) if whole.ndim == 2 else whole
        yield f"<tr><td>{escape(caption)}</td>"
        yield f"<td>{_picture(plain, f'The input of {caption}')}</td>"
        for panel in panels:
            values = panel.values[row]
            pixels = heated(whole, values, panel, _LIGHT)
            words = silent(values) or _strongest(values)
            text = f"The attribution of {caption} by {panel.heading}: {words}"
            yield f"<td>{_picture(pixels, text)}{_said(values, panel)}</td>"
        yield "</tr>"
    yield "</tbody></table>"


def _picture(pixels: np.ndarray, text: str) -> str:
    tall, wide = pixels.shape[:2]
    # Small pictures are shown large, in whole pixels; large ones as they are.
    width = max(1, round(_SIDE * wide / max(tall, wide)))
    return (
        f'<img src="{data_url(pixels)}" alt="{escape(text)}" width="{width}" '
        'style="image-rendering:pixelated">'
    )


def _strongest(values: np.ndarray) -> str:
    sizes = np.where(np.isfinite(values), np.abs(values), -1.0)
    row, column = np.unravel_index(int(sizes.argmax()), sizes.shape)
    return f"strongest at row {row}, column {column}, {number(values[row, column])}"


def _said(values: np.ndarray, panel: Panel) -> str:
    """Returns the scale in words, or that there is none; and what is not finite."""
    limit = limit_of(values)
    words = silent(values) or (_ends(limit, panel) if limit else "")
    return "".join(notes(values, words, tag="div"))


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
    share = min(1.0, abs(value) / (limit or 1.0))
    # See-through, so that it suits any page; below 0.75, so that any ink can be read.
    colour = rgb(_LIGHT.positive if value >= 0 else _LIGHT.negative) * 255
    channels = ",".join(f"{channel:.0f}" for channel in colour)
    ground = f"background:rgba({channels},{0.75 * share**STRENGTH:.2f})"
    return f'<span title="{number(value)}" style="{ground}">{escape(word)}</span>'


def _bars(panel: Panel) -> Iterator[str]:
    rows = zip(panel.captions, panel.values, charts(panel), strict=True)
    for caption, values, bars in rows:
        sizes = [abs(bar.value) for bar in bars if np.isfinite(bar.value)]
        reach = max([*sizes, 0.0]) or 1.0
        yield "<table>"
        yield f"<caption>{escape(caption)}</caption>"
        heads = ("feature", "value", "against", "for", panel.heading)
        sides = ("left", "right", "right", "left", "right")
        yield f"{table_head(zip(heads, sides, strict=True))}<tbody>"
        for bar in bars:
            yield _bar(bar, reach)
        yield "</tbody></table>"
        yield from notes(values, silent(values))


def _bar(bar: Bar, reach: float) -> str:
    finite = bool(np.isfinite(bar.value))
    width = 7 * abs(bar.value) / reach if finite else 0.0
    piece = f'<span class="{{}}" style="width:{width:.2f}em"></span>'
    against = piece.format("neg") if finite and bar.value < 0 else ""
    favour = piece.format("pos") if finite and bar.value > 0 else ""
    words = number(bar.value) if finite else f"<strong>{bar.value}</strong>"
    tone = "alarm" if not finite else "dim" if bar.rest else "plain"
    return (
        f'<tr><td class="left {tone}">{escape(bar.name)}</td>'
        f'<td class="right dim">{escape(bar.feature)}</td>'
        f'<td class="right half">{against}</td><td class="left half">{favour}</td>'
        f'<td class="right {tone}">{words}</td></tr>'
    )
