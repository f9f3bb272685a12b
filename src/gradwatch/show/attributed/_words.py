"""Words and colour bars that all kinds of panels share."""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import SubFigure

from .._figure import say
from ..palette import Theme
from ._heat import scale
from ._panel import number

CHARACTER = 0.072
"""Inches that a character of a title takes, on average."""


def wrapped_title(text: str, width: float) -> str:
    """Breaks a title into lines that fit a width in inches."""
    return textwrap.fill(text, max(20, int(0.95 * width / (CHARACTER * 1.17))))


def caption(ax: Axes, text: str, theme: Theme, trouble: str = "") -> None:
    """Writes the line above an example, and below it what is wrong with it."""
    ax.set_title(text, loc="left", fontsize=8.5, parse_math=False, color=theme.ink)
    if trouble:
        ax.set_xlabel(trouble, fontsize=8, color=theme.alarm, loc="left")


def say_upon(ax: Axes, text: str, theme: Theme) -> None:
    """Writes a text into the middle of axes, on a patch of the page."""
    box = {"facecolor": theme.paper, "edgecolor": "none", "alpha": 0.85, "pad": 3}
    say(ax, text, fontsize=8.5, color=theme.ink, bbox=box)


def colour_bar(
    part: SubFigure, limit: float, theme: Theme, *, signed: bool, **where: Any
) -> None:
    """Draws the scale: symmetric about zero, or from zero up."""
    colours = ListedColormap(scale(theme, signed=signed))
    low = -limit if signed else 0.0
    mapped = ScalarMappable(Normalize(low, limit), colours)
    bar: Any = part.colorbar(mapped, **where)
    bar.outline.set_visible(False)
    ticks = [low, 0.0, limit] if signed else [0.0, limit]
    bar.set_ticks(ticks, labels=[number(tick) for tick in ticks])
    bar.ax.tick_params(length=0, labelsize=7.5)
