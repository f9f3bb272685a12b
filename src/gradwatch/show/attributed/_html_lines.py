"""Series as HTML: heat as an embedded picture, and the lines drawn over it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

from .._format import printable
from ..palette import THEMES
from ._heat import heat, limit_of
from ._panel import Panel, broken, silent
from ._png import data_url

_WIDTH, _HEIGHT, _STRIP = 640, 120, 14
_DASHES = ("", "6 3", "6 3 1 3", "1 3", "9 2", "2 2")


def lines_html(panel: Panel) -> Iterator[str]:
    """Yields each example: its lines on a coloured ground, a strip for each channel."""
    for row, caption in enumerate(panel.captions):
        yield f'<p class="dim">{escape(caption)} · {escape(panel.heading)}</p>'
        yield from _example(panel, row, caption)
        values = panel.values[row]
        yield from notes(values, silent(values))


def notes(values: np.ndarray, words: str, tag: str = "p") -> Iterator[str]:
    """Yields a line of words, and one on numbers that are not finite."""
    for text, tone in ((words, "dim"), (broken(values), "alarm")):
        if text:
            yield f'<{tag} class="{tone}">{escape(text)}</{tag}>'


def _example(panel: Panel, row: int, caption: str) -> Iterator[str]:
    values = panel.values[row]
    strips = panel.strips
    total = values.sum(axis=1)
    limit = limit_of(values if strips else total)
    text = f"The attribution of {caption} by {panel.heading}, over time"
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT + _STRIP * strips}" width="{_WIDTH}"'
    yield f'<svg {box} role="img" aria-label="{escape(text)}">'
    yield _ground(total[None], limit, panel, 0, _HEIGHT)
    yield from _polylines(panel.lines(row)[0])
    if strips:
        yield _ground(values.T, limit, panel, _HEIGHT, _STRIP * strips)
        for strip, name in enumerate(map(printable, panel.labels[0])):
            at = f'x="3" y="{_HEIGHT + _STRIP * (strip + 0.75):.1f}"'
            style = 'font-size="10" fill="currentColor"'
            yield f"<text {at} {style}>{escape(name)}</text>"
    yield "</svg>"


def _ground(values: np.ndarray, limit: float, panel: Panel, y: int, tall: int) -> str:
    colours = heat(values, limit, signed=panel.signed, theme=THEMES["light"])
    # See-through, so that it suits any page and any ink.
    colours[..., 3] = np.where(np.isfinite(values), 0.75 * colours[..., 3], 1.0)
    box = f'x="0" y="{y}" width="{_WIDTH}" height="{tall}" preserveAspectRatio="none"'
    return f'<image href="{data_url(colours)}" {box}/>'


def _polylines(data: np.ndarray) -> Iterator[str]:
    data = np.nan_to_num(data)
    low, high = float(data.min()), float(data.max())
    xs = (np.arange(len(data)) + 0.5) * _WIDTH / len(data)
    ys = 6 + (_HEIGHT - 12) * (high - data) / ((high - low) or 1.0)
    for line, dash in zip(ys.T, _DASHES, strict=False):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, line, strict=True))
        style = f'fill="none" stroke="currentColor" stroke-dasharray="{dash}"'
        yield f'<polyline points="{points}" stroke-width="1.3" {style}/>'
