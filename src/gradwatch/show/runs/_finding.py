"""Draws a finding: the numbers that show it, when, and where healthy ones would be."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator
from matplotlib.transforms import offset_copy

from ...diagnose import SYMPTOMS, Evidence, Finding, within
from .. import palette
from .._figure import new_figure
from .._flow_axis import powers_of_ten
from .._fold import fold
from .._format import printable
from ..charts import NAN
from ..palette import Theme
from ._axes import MOST_NAMED, names_axis, steps_axis
from ._lines import Line, draw_line, draw_signs, finish, name_lines, value_axis

MOST_LINES = 6
_LETTER = 0.095  # inches of a letter of the title


def draw_finding(finding: Finding, seen: Sequence[Evidence], theme: Theme) -> Figure:
    """Returns the figure of a finding."""
    tall = max((len(e.lines) for e in seen if e.panel.over == "depth"), default=0)
    height = 4.4 if tall <= 14 else min(8.0, 1.8 + 0.19 * tall)
    width = 9.5 if len(seen) < 2 else 12.0
    with new_figure(width, height, theme) as figure:
        handles: dict[str, Any] = {}
        if not seen:
            _draw_share(figure.add_subplot(), finding, theme)
            axes: Any = ()
        else:
            axes = figure.subplots(1, len(seen), squeeze=False)[0]
        for ax, found in zip(axes, seen, strict=True):
            draw = _draw_depth if found.panel.over == "depth" else _draw_course
            for handle in draw(ax, found, finding, theme):
                handles[str(handle.get_label())] = handle
        taken = sum(0.6 + 0.065 * len(label) for label in handles)
        width = max(width, taken + 0.4 + _LETTER * len(SYMPTOMS[finding.symptom]))
        figure.set_figwidth(width)
        _write(figure, finding, (width, taken), theme)
        figure.legend(
            handles=list(handles.values()),
            loc="outside upper right",
            ncols=max(1, len(handles)),
            handletextpad=0.6,
        )
    return figure


def _write(
    figure: Figure, finding: Finding, inches: tuple[float, float], theme: Theme
) -> None:
    """Writes what it is above, and what was seen and what helps below.

    Args:
        figure: To write on.
        finding: What to tell.
        inches: The width of the figure, and how much of it the legend takes.
        theme: The colours.
    """
    width, taken = inches
    words = SYMPTOMS[finding.symptom]
    more = f" and {len(finding.addresses) - 1} more" if finding.addresses[1:] else ""
    where = ""
    if finding.addresses:
        room = int((width - taken - 0.3) / _LETTER) - len(words) - len(more) - 2
        [first] = fold([printable(finding.addresses[0])], max(12, room)).values()
        where = f": {first}{more}" if room >= 12 else ""
    style: dict[str, Any] = {"x": 0.012, "ha": "left", "parse_math": False}
    figure.suptitle(
        f"{words[0].upper()}{words[1:]}{where}", **style, fontsize=11, weight="bold"
    )
    sentences = [f"Confirmed at step {finding.step:,}: {finding.seen}."]
    if finding.healthy:
        sentences.append(f"Healthy: {finding.healthy}.")
    if finding.try_first:
        sentences.append(f"Try first: {finding.try_first}")
    text = textwrap.fill(printable(" ".join(sentences)), int(width * 14.5))
    figure.supxlabel(text, **style, fontsize=8.5, color=theme.muted)


def _draw_course(
    ax: Axes, found: Evidence, finding: Finding, theme: Theme
) -> list[Any]:
    """Draws numbers over steps."""
    lines = []
    for name, values in list(found.lines.items())[:MOST_LINES]:
        flags = np.zeros(len(values), np.uint8)
        if finding.symptom == "nonfinite":  # elsewhere NaN is "cannot be said yet"
            flags[np.isnan(values)] = NAN
        finite = np.where(np.isfinite(values), values, np.nan)
        lines.append(Line(name, found.steps.astype(np.float64), finite, flags))
    drawn = [draw_line(ax, line, at, theme) for at, line in enumerate(lines)]
    first, last = float(found.steps[0]), float(found.steps[-1])
    room = max((last - first) * 0.015, 0.5)
    steps_axis(ax, first - room, last + room)
    limits = [end for zone in found.zones for end in zone if 0 < end < math.inf]
    value_axis(
        ax, found.panel.scale, [np.array([*line.values, *limits]) for line in lines]
    )
    handles = _zones(ax, found, "y", theme) + draw_signs(ax, lines, theme)
    finish(ax)
    if not lines:
        _say(ax, "this run holds none of these numbers", theme)
    ax.set_ylabel(found.panel.label)
    if len(lines) > 1 or (lines and within(lines[0].name, finding.addresses)):
        name_lines(ax, drawn, [line.name for line in lines])
    return handles + _when(ax, finding, theme)


def _say(ax: Axes, words: str, theme: Theme) -> None:
    """Writes in the middle of axes that have nothing to show."""
    style: dict[str, Any] = {"color": theme.muted, "ha": "center"}
    ax.text(0.5, 0.5, words, transform=ax.transAxes, **style)


def _when(ax: Axes, finding: Finding, theme: Theme) -> list[Any]:
    """Marks the first step that shows it, and the one at which it was sure."""
    since: dict[str, Any] = {"color": theme.muted, "ls": (0, (4, 3)), "lw": 1.1}
    sure: dict[str, Any] = {"color": theme.ink, "ls": "-", "lw": 1.3}
    handles = []
    if finding.since != finding.step:
        ax.axvline(finding.since, **since, zorder=3)
        label = f"first seen at step {finding.since:,}"
        handles.append(Line2D([], [], **since, label=label))
    ax.axvline(finding.step, **sure, zorder=3)
    handles.append(Line2D([], [], **sure, label=f"confirmed at step {finding.step:,}"))
    return handles


def _zones(ax: Axes, found: Evidence, axis: str, theme: Theme) -> list[Any]:
    """Colours where no number of a healthy training is."""
    low, high = ax.get_ylim() if axis == "y" else ax.get_xlim()
    draw = ax.axhspan if axis == "y" else ax.axvspan
    rule = ax.axhline if axis == "y" else ax.axvline
    for start, stop in found.zones:
        ends = max(start, low), min(stop, high)
        if ends[0] < ends[1]:
            draw(*ends, color=theme.sick, alpha=0.14, lw=0, zorder=0)
        for limit in (start, stop):
            if low < limit < high:
                rule(limit, color=theme.sick, lw=1, alpha=0.7, zorder=1)
    if not found.zones:
        return []
    return [Patch(facecolor=theme.sick, alpha=0.25, label="not healthy")]


def _draw_depth(ax: Axes, found: Evidence, finding: Finding, theme: Theme) -> list[Any]:
    """Draws numbers along depth, which runs down the page."""
    names = list(found.lines)
    values = np.array([found.lines[name][0] for name in names])
    guilty = np.array([within(name, finding.addresses) for name in names], bool)
    places = np.arange(len(names))
    there = np.isfinite(values) & (values > 0)
    limits = [end for zone in found.zones for end in zone if 0 < end < math.inf]
    low, high = _ends([*values[there], *limits])
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ax.xaxis.set_major_locator(FixedLocator(powers_of_ten(low, high, 7)))
    ax.xaxis.set_minor_locator(NullLocator())
    handles = _zones(ax, found, "x", theme)
    trend = np.where(there, values, np.nan)
    ax.plot(trend, places, color=theme.hues[0], alpha=0.35, lw=1.2, zorder=2)
    dots: dict[str, Any] = {"linestyle": "none", "markeredgecolor": theme.paper}
    for chosen, colour, sign, size in (
        (~guilty, theme.hues[0], "o", 6.5),
        (guilty, theme.sick, "D", 7.0),
    ):
        some = chosen & there
        look = {**dots, "marker": sign, "markersize": size, "color": colour}
        ax.plot(values[some], places[some], **look, zorder=4)
        if chosen is guilty and some.any():
            handles.append(Line2D([], [], **look, label="where it is"))
    handles += _edges(ax, values, guilty, theme)
    ax.set_ylim(len(names) - 0.4, -0.6)
    names_axis(ax, names)
    if len(names) <= MOST_NAMED:
        for label, bad in zip(ax.get_yticklabels(), guilty, strict=True):
            if bad:
                label.set_color(theme.sick)
    ax.grid(axis="x", color=palette.FAINT, linewidth=0.6)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xlabel(f"{found.panel.label}, at step {int(found.steps[0]):,}")
    return handles


def _edges(ax: Axes, values: Any, guilty: Any, theme: Theme) -> list[Any]:
    """Draws at the left edge what has no place on a log scale."""
    figure = ax.get_figure(root=True)
    edge = offset_copy(ax.get_yaxis_transform(), figure, x=0.09)
    handles = []
    for chosen, sign, words in (
        (values == 0, "o", "exactly zero"),
        (np.isnan(values), "|", "none"),
    ):
        for places, colour in (
            (np.flatnonzero(chosen & ~guilty), theme.muted),
            (np.flatnonzero(chosen & guilty), theme.sick),
        ):
            if len(places):
                look: dict[str, Any] = {
                    "marker": sign,
                    "linestyle": "none",
                    "markerfacecolor": "none",
                    "markeredgecolor": colour,
                    "markeredgewidth": 1.7,
                    "markersize": 7,
                }
                across = np.zeros(len(places))
                ax.plot(across, places, **look, transform=edge, clip_on=False, zorder=5)
                handles.append(Line2D([], [], **look, label=words))
    return handles


def _ends(values: Sequence[float]) -> tuple[float, float]:
    if not len(values):
        return 1e-3, 1.0
    low, high = math.log10(min(values)), math.log10(max(values))
    if high - low < 2:
        low, high = (low + high) / 2 - 1, (low + high) / 2 + 1
    room = 0.09 * (high - low)
    return 10 ** max(low - room, -323.0), 10 ** min(high + room, 308.0)


def _draw_share(ax: Axes, finding: Finding, theme: Theme) -> None:
    """Draws a finding that is one share, as of rows that never moved."""
    if finding.measured is None or finding.measured.value is None:
        _say(ax, "what was measured is not known of this finding", theme)
        return
    share = finding.measured.value
    ax.barh([0], [1 - share], color=theme.hues[0], height=0.5)
    ax.barh([0], [share], left=[1 - share], color=theme.sick, alpha=0.55, height=0.5)
    ax.set(xlim=(0, 1), ylim=(-1, 1), yticks=[])
    ax.set_xticks([0, 0.5, 1], ["0%", "50%", "100%"])
    middle = 1 - share / 2
    ax.annotate(f"{share:.1%} never moved", (middle, 0.34), ha="center")
    ax.set_xlabel("rows of the embedding")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
