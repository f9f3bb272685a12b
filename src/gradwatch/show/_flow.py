"""Draws the flow plot: lines, markers, edge marks and the legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from matplotlib import rcParams
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from ._cells import grouped
from ._figure import Style, marker, points
from ._flow_axis import FlowAxis
from ._marks import Mark

# The marker, the index of the hue and the label of each group of gradients.
_GROUPS = {
    "weight": ("o", 0, "weight"),
    "vector": ("D", 1, "bias or scale"),
    "activation": ("s", 2, "activation"),
    "input": ("^", 3, "input"),
}
_SIZES = {"D": 4.3, "^": 6.0}  # markers that would look larger or smaller than others
_TRENDS = ("weight", "activation")  # groups whose markers a thin line connects


def draw_flow(axis: FlowAxis, title: str) -> list[Line2D]:
    """Draws everything but the legend, whose entries it returns."""
    handles = [
        _draw_group(axis, group, marks)
        for group, marks in grouped(axis.marks, lambda mark: mark.group).items()
        if any(mark.state == "value" for mark in marks)
    ]
    handles += _draw_edges(axis, axis.marks)
    axis.finish(title)
    return handles


def _draw_group(axis: FlowAxis, group: str, marks: Sequence[Mark]) -> Line2D:
    """Draws the gradients of a group, which are all of one kind."""
    sign, hue, label = _GROUPS.get(group, ("P", 4, group))
    colour, positions = axis.theme.hues[hue], [mark.position for mark in marks]
    at = axis.xy(positions, [mark.typical for mark in marks])
    if group in _TRENDS:  # a gradient without a value breaks the line
        axis.ax.plot(*at, color=colour, alpha=0.35, linewidth=1.2, zorder=2)
    drawn = [m for m in marks if m.largest > 0]
    ends = [axis.xy((m.position, m.position), (m.typical, m.largest)) for m in drawn]
    lines = [list(zip(*xy, strict=True)) for xy in ends]
    style: Style = {"linewidths": 1 + 1.5 * axis.dots, "alpha": 0.4, "zorder": 3}
    axis.ax.add_collection(LineCollection(lines, colors=colour, **style), autolim=False)
    size = _SIZES.get(sign, 5) * max(0.7, axis.dots)
    style = marker(sign, size, axis.ax.get_facecolor(), 0.5, markerfacecolor=colour)
    at = axis.xy([m.position for m in drawn], [m.typical for m in drawn])
    axis.ax.plot(*at, **style, zorder=4)
    return Line2D([], [], **{**style, "markersize": 6}, label=label)


def _draw_edges(axis: FlowAxis, marks: Sequence[Mark]) -> list[Line2D]:
    """Draws the gradients that a log scale cannot show, and returns legend entries."""
    hollow = marker("o", 5, rcParams["text.color"], markerfacecolor="none")
    cross = marker("x", 6, axis.theme.nan, 1.8)
    tick = marker("|" if axis.named else "_", 7, axis.theme.muted, 1.6)
    kinds: list[tuple[str, Literal[0, 1], Style, list[Mark]]] = [
        ("all zero", 0, hollow, [m for m in marks if m.state == "zero"]),
        ("NaN or ∞", 1, cross, [m for m in marks if m.alarm]),
        ("no gradient", 0, tick, [m for m in marks if m.state == "missing"]),
        ("no elements", 0, tick, [m for m in marks if m.state == "empty"]),
    ]
    handles = []
    for label, end, style, members in kinds:
        at = axis.xy([m.position for m in members], [float(end)] * len(members))
        edge: Style = {"transform": axis.edge(end), "clip_on": False, "zorder": 5}
        points(axis.ax, at, style, **edge)
        handles += [Line2D([], [], **style, label=label)] if members else []
    return handles
