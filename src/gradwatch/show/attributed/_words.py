"""Words and colour bars that all kinds of panels share."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import SubFigure

from .._figure import say
from ..palette import Theme
from ._heat import scale
from ._panel import broken, number

CHARACTER = 0.072
"""Inches that a character of a title takes, on average."""

Drawing = tuple[float, float, Callable[[SubFigure], None]]
"""Width and height in inches of a group of panels, and what draws it."""


def wrapped_title(text: str, width: float) -> str:
    """Breaks a title into lines that fit a width in inches."""
    return textwrap.fill(text, max(20, int(0.95 * width / (CHARACTER * 1.17))))


def caption(ax: Axes, text: str, theme: Theme) -> None:
    """Writes the line above an example."""
    ax.set_title(text, loc="left", fontsize=8.5, parse_math=False, color=theme.ink)


def below(ax: Axes, values: np.ndarray, theme: Theme, text: str, **where: Any) -> None:
    """Writes a text below an example; if some values are not finite, that instead."""
    trouble = broken(values)
    colour = theme.alarm if trouble else theme.muted
    style = {"color": colour, **(where if trouble else {})}
    ax.set_xlabel(trouble or text, fontsize=8, parse_math=False, **style)


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
    bar: Any = part.colorbar(ScalarMappable(Normalize(low, limit), colours), **where)
    bar.outline.set_visible(False)
    ticks = [low, 0.0, limit] if signed else [0.0, limit]
    bar.set_ticks(ticks, labels=[number(tick) for tick in ticks])
    bar.ax.tick_params(labelsize=7.5)
