"""Rows of a table: a bar for each feature, the largest on top."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from .. import palette
from .._fold import fold
from ..palette import Theme
from ._panel import Panel, number, silent
from ._ranked import Bar, charts
from ._words import Drawing, below, caption, say_upon

ACROSS = 2
"""Examples side by side."""


def bar_panel(panels: list[Panel], theme: Theme) -> Drawing:
    """Returns a small chart for each example of a panel."""
    [panel] = panels
    every = charts(panel)
    across = min(ACROSS, len(every))
    down = math.ceil(len(every) / across)

    def draw(part: SubFigure) -> None:
        grid = part.subplots(down, across, squeeze=False).ravel()
        for ax in grid[len(every) :]:
            ax.set_axis_off()
        for row, (ax, bars) in enumerate(zip(grid, every, strict=False)):
            values = panel.values[row]
            caption(ax, panel.captions[row], theme)
            ax.set(xticks=[], yticks=[])
            if words := silent(values):
                say_upon(ax, words, theme)
            else:
                _chart(ax, bars, theme)
                below(ax, values, theme, panel.heading, loc="left")

    height = down * (0.72 + 0.25 * max(2, *map(len, every))) + 0.1
    return 6.4 if across == 1 else 9.6, height, draw


def _chart(ax: Axes, bars: list[Bar], theme: Theme) -> None:
    values = np.array([bar.value for bar in bars])
    finite = np.isfinite(values)
    lengths = np.where(finite, values, 0.0)
    signs = np.where(values < 0, theme.negative, theme.positive)
    colours = np.where(finite, signs, palette.ALARM).tolist()
    drawn = ax.barh(range(len(bars)), lengths, height=0.72, color=colours)
    low, high = min(0.0, lengths.min()), max(0.0, lengths.max())
    # Room for the numbers, which stand at the far ends of the bars.
    room = (0.36 if low < 0 < high else 0.3) * (high - low or 1.0)
    low, high = low - room * (low < 0), high + room * (high > 0 or low == 0)
    ax.set(xlim=(low, high), ylim=(len(bars) - 0.4, -0.6))
    ax.axvline(0, color=theme.muted, linewidth=0.8)
    folded = fold((bar.name for bar in bars), 24)
    features = (f" = {bar.feature}" if bar.feature else "" for bar in bars)
    names = [folded[bar.name] + own for bar, own in zip(bars, features, strict=True)]
    ax.set_yticks(range(len(bars)), names, fontsize=8.5, parse_math=False)
    words = (str(value).replace("nan", "NaN") for value in values)
    texts = np.where(finite, [number(value) for value in values], list(words)).tolist()
    # The number of a bar stands at its far end.
    numbers = ax.bar_label(drawn, texts, padding=4, fontsize=8, parse_math=False)
    parts = zip(bars, drawn, ax.get_yticklabels(), numbers, finite, strict=True)
    for bar, patch, label, text, known in parts:
        patch.set_alpha(0.45 if bar.rest else 1.0)
        text.set_color(theme.muted if known else theme.alarm)
        if bar.rest:
            label.set_color(theme.muted)
