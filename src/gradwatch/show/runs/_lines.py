"""Draws a few rows of numbers as lines over steps, each with its name at its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import offset_copy

from .._figure import (
    PERCENT,
    Style,
    inches,
    log_limits,
    log_ticks,
    marker,
    points,
)
from .._fold import fold
from .._format import printable
from ..charts import Heat
from ..palette import Theme
from ._axes import nonfinite_signs, steps_axis

LINES_HEIGHT = 4.4  # inches of a figure
DASHES = ("-", (0, (5, 1.6)), "-", (0, (3, 1.2, 1, 1.2)), "-", (0, (1.2, 1.2)))
SIGNS = ("o", "D", "s", "^", "P", "v")
_MARGIN = 0.013  # room at both ends of the axis of steps, as a share of it
_POINTS = 12  # of fewer numbers each is a point; so is one that stands alone


def draw_lines(
    ax: Axes,
    theme: Theme,
    heat: Heat,
    label: str,
    scale: str,
    limits: Sequence[float] = (),
) -> None:
    """Draws rows and signs, and sets the axes.

    Each number is drawn at the last step of its bucket.

    Args:
        ax: The axes.
        theme: The colours.
        heat: The numbers.
        label: The label of the axis.
        scale: "log", "share" or "linear".
        limits: Further numbers that the axis of values must hold.
    """
    for row, values in enumerate(heat.values):
        there = np.isfinite(values)
        alone = there & ~np.pad(there, (1, 0))[:-1] & ~np.pad(there, (0, 1))[1:]
        marked = there if there.sum() <= _POINTS else alone
        style: Style = {
            "color": theme.hues[row % len(theme.hues)],
            "linestyle": DASHES[row % len(DASHES)],
            "linewidth": 1.7,
            "marker": SIGNS[row % len(SIGNS)],
            "markersize": 4.5,
            "markevery": np.flatnonzero(marked).tolist(),
        }
        ax.plot(heat.last, np.where(there, values, np.nan), **style, zorder=4)
    first, last = float(heat.last[0]), float(heat.last[-1])
    room = max((last - first) * _MARGIN, 0.5)
    steps_axis(ax, first - room, last + room)
    if scale == "share":
        ax.set_ylim(-0.03, 1.08)  # room above for what is not finite
        ax.yaxis.set_major_formatter(PERCENT)
    elif scale == "log":
        ends = log_limits([*heat.values.ravel(), *limits], 1, 0.08, 0.12)
        ax.set_yscale("log", nonpositive="mask")
        ax.set_ylim(*ends)
        log_ticks(ax.yaxis, *ends)
    ax.spines.bottom.set_visible(True)
    ax.grid(axis="y")
    ax.set_ylabel(label)
    _name_lines(ax, heat.names)
    draw_signs(ax, theme, heat)


def _name_lines(ax: Axes, names: Sequence[str]) -> None:
    """Writes names beside the ends of lines, moved apart where they would touch."""
    short = fold((printable(name) for name in names), 30)
    apart = 0.155 / inches(ax)[1]  # of the axis
    to_share = ax.transScale + ax.transLimits
    ends: list[tuple[float, Line2D, str]] = []
    for line, name in zip(ax.lines, names, strict=False):  # signs come after the lines
        y = np.asarray(line.get_ydata(), float)
        last = y[np.isfinite(y)][-1:]
        # A zero is below any log scale; a line without numbers has no end.
        share = to_share.transform((0.0, last[0]))[1] if len(last) else 0.0
        ends.append((float(np.clip(share, 0, 1)), line, name))
    ends.sort(key=lambda end: end[0])
    heights = [end[0] for end in ends]
    for index in range(1, len(heights)):
        heights[index] = max(heights[index], heights[index - 1] + apart)
    over = max(0.0, heights[-1] - 1.0) if heights else 0.0
    style: Style = {"va": "center", "fontsize": 8.5, "parse_math": False}
    style["transform"] = offset_copy(ax.transAxes, ax.get_figure(root=True), x=0.08)
    for at, (_, line, name) in zip(heights, ends, strict=True):
        ax.text(1, at - over, short[printable(name)], color=line.get_color(), **style)


def draw_signs(ax: Axes, theme: Theme, heat: Heat) -> None:
    """Puts what is not finite at the upper edge, and exact zeros at the lower."""
    edge: Style = {"transform": ax.get_xaxis_transform(), "clip_on": False}
    for flag, sign, colour, label in nonfinite_signs(theme):
        steps = heat.last[((heat.flags & flag) != 0).any(axis=0)]
        style = marker(sign, 7, colour, 1.8, label=label)
        points(ax, (steps, [0.97] * len(steps)), style, **edge, zorder=6)
    if ax.get_yscale() != "log" or not (heat.values == 0).any():
        return
    hollow: Style = {"markerfacecolor": "none"}
    for row, values in enumerate(heat.values):
        steps = heat.last[values == 0]
        style = marker("o", 4.5, theme.hues[row % len(theme.hues)], **hollow)
        points(ax, (steps, [0.015 + 0.02 * row] * len(steps)), style, **edge)
    ax.plot([], [], **marker("o", 4.5, theme.muted, **hollow), label="exactly zero")
