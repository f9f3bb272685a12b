"""Words on a coloured ground, in lines as long as the figure is wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import FancyBboxPatch
from rich.cells import cell_len

from .._format import printable
from ..palette import Theme, rgb
from ._heat import heat, limit_of, over
from ._panel import Panel, broken, left_out, silent
from ._words import Drawing, colour_bar

WIDTH = 8.0
COLUMNS = 78
"""Characters of a line; the type is set so that they fill the figure."""
LINE = 0.27  # inches from one line to the next
_BOX: Any = {
    "boxstyle": "round,pad=0,rounding_size=0.4",
    "mutation_aspect": 0.35,  # a character is so much narrower than a line
    "linewidth": 0,
}
_FONT: Any = {"family": "monospace", "fontsize": 10.4, "parse_math": False}
_CENTRED: Any = {"ha": "center", "va": "center_baseline", **_FONT}
LONGEST = 40
"""Maximum number of lines of an example, so that a figure can be opened."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its position: index, line, column and width in characters."""

    index: int
    text: str
    line: int
    column: int
    width: int


def laid_out(words: Sequence[str], columns: int = COLUMNS) -> list[Word]:
    """Sets words into lines, as a typewriter would; empty ones are left out.

    Example:
    >>> [(word.text, word.line, word.column) for word in laid_out(["a", "bc", "d"], 5)]
    [('a', 0, 0), ('bc', 0, 2), ('d', 1, 0)]
    """
    laid: list[Word] = []
    line = column = 0
    for index, word in enumerate(words):
        text = printable(word)
        if not text:
            continue
        if cell_len(text) > columns:
            text = text[: columns // 2 - 1] + "…"
        width = cell_len(text)
        if column and column + width > columns:
            line, column = line + 1, 0
        laid.append(Word(index, text, line, column, width))
        column += width + 1
    return laid


def token_panel(panels: list[Panel], theme: Theme) -> Drawing:
    """Returns examples below each other, and one scale for all of them."""
    [panel] = panels
    every = [laid_out(words) for words in panel.labels]
    texts = [[word for word in words if word.line < LONGEST] for words in every]
    notes = []
    for values, text in zip(panel.values, texts, strict=True):
        hidden = left_out(values, {word.index for word in text})
        notes.append("; ".join(filter(None, (broken(values), silent(values), hidden))))
    # The line at which each example begins, below its caption; and where all end.
    both = zip(texts, notes, strict=True)
    heights = [1.4 + _lines(text) + (0.8 if note else 0) for text, note in both]
    *tops, end = accumulate(heights, initial=1.0)
    limit = limit_of(panel.values)

    def draw(part: SubFigure) -> None:
        ax = part.subplots()
        ax.set(xlim=(-0.5, COLUMNS + 0.5), ylim=(end - 1.3, -0.4))
        ax.set_axis_off()
        words: dict[str, Any] = {"va": "center", "parse_math": False}
        for row, (top, text, note) in enumerate(zip(tops, texts, notes, strict=True)):
            values = panel.values[row]
            ax.text(-0.3, top - 1, panel.captions[row], fontsize=8.5, **words)
            colours = heat(values, limit, signed=panel.signed, theme=theme)
            _write(ax, text, top, over(rgb(theme.paper), colours))
            if note:
                last = top + _lines(text) - 0.1
                tone = theme.alarm if broken(values) else theme.muted
                ax.text(-0.3, last, note, fontsize=8, color=tone, **words)
        if limit:
            options = {"location": "bottom", "shrink": 0.4, "aspect": 30, "pad": 0.02}
            colour_bar(part, limit, theme, signed=panel.signed, ax=ax, **options)
        corner: dict[str, Any] = {"ha": "right", "va": "bottom", "parse_math": False}
        part.text(0.98, 0.01, panel.heading, fontsize=8, color=theme.muted, **corner)

    return WIDTH, LINE * (end - 1) + 0.75, draw


def _write(ax: Axes, words: Sequence[Word], top: float, grounds: np.ndarray) -> None:
    """Writes the words of an example on their grounds, from a line on."""
    for word in words:
        ground, line = grounds[word.index], top + word.line
        corner, size = (word.column - 0.42, line - 0.4), (word.width + 0.84, 0.8)
        ax.add_patch(FancyBboxPatch(corner, *size, facecolor=ground, **_BOX))
        middle = word.column + word.width / 2
        ax.text(middle, line, word.text, color=_ink_on(ground), **_CENTRED)


def _lines(words: Sequence[Word]) -> int:
    return words[-1].line + 1 if words else 1


def _ink_on(ground: np.ndarray) -> str:
    """Returns black or white, whichever can be read: by the luminance W3C defines."""
    linear = np.where(ground <= 0.04, ground / 12.92, ((ground + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ (0.2126, 0.7152, 0.0722) > 0.18 else "#FFFFFF"
