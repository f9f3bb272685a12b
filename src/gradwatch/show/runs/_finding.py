"""Draws a finding: the numbers that show it, when, and where healthy ones lie."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from ...diagnose import SYMPTOMS, Evidence, Finding, within
from .._figure import (
    Style,
    log_limits,
    log_ticks,
    marker,
    new_figure,
    points,
    say,
)
from .._fold import fold
from .._format import printable
from ..charts import NAN, Heat
from ..palette import Theme
from ._axes import MOST_NAMED, explain, names_axis
from ._lines import draw_lines

MOST_LINES = 6
_LETTER = 0.095  # inches of a letter of the title
_LEFT: Style = {"x": 0.012, "ha": "left", "parse_math": False}


def draw_finding(finding: Finding, seen: Sequence[Evidence], theme: Theme) -> Figure:
    """Returns the figure of a finding."""
    tall = max((len(e.lines) for e in seen if e.panel.over == "depth"), default=0)
    height = 4.4 if tall <= 14 else min(8.0, 1.8 + 0.19 * tall)
    width = 9.5 if len(seen) < 2 else 12.0
    with new_figure(width, height, theme) as figure:
        if not seen:
            _draw_share(figure.add_subplot(), finding, theme)
        axes = figure.subplots(1, len(seen), squeeze=False)[0] if seen else ()
        for ax, evidence in zip(axes, seen, strict=True):
            draw = _draw_depth if evidence.panel.over == "depth" else _draw_course
            draw(ax, theme, evidence, finding)
        each = (zip(*ax.get_legend_handles_labels(), strict=True) for ax in axes)
        handles = {label: handle for own in each for handle, label in own}
        taken = sum(0.6 + 0.065 * len(label) for label in handles)
        width = max(width, taken + 0.4 + _LETTER * len(SYMPTOMS[finding.symptom]))
        figure.set_figwidth(width)
        title = _title(finding, width - taken)
        figure.suptitle(title, **_LEFT, fontsize=11, weight="bold")
        where: Style = {"loc": "outside upper right", "ncols": max(1, len(handles))}
        figure.legend(handles=list(handles.values()), **where, handletextpad=0.6)
        parts = (
            f"Confirmed at step {finding.step:,}: {finding.seen}.",
            finding.healthy and f"Healthy: {finding.healthy}.",
            finding.try_first and f"Try first: {finding.try_first}",
        )
        words = printable(" ".join(filter(None, parts)))
        text = textwrap.fill(words, int(width * 14.5))
        figure.supxlabel(text, **_LEFT, fontsize=8.5, color=theme.muted)
    return figure


def _title(finding: Finding, room: float) -> str:
    """Returns the title: the symptom, and where it is if there are inches for it."""
    words = SYMPTOMS[finding.symptom]
    more = f" and {len(finding.addresses) - 1} more" if finding.addresses[1:] else ""
    cells = int((room - 0.3) / _LETTER) - len(words) - len(more) - 2
    where = ""
    if finding.addresses and cells >= 12:
        [first] = fold([printable(finding.addresses[0])], cells).values()
        where = f": {first}{more}"
    return f"{words[0].upper()}{words[1:]}{where}"


def _draw_course(ax: Axes, theme: Theme, seen: Evidence, finding: Finding) -> None:
    """Draws numbers over steps."""
    names = tuple(seen.lines)[:MOST_LINES]
    values = np.array([seen.lines[name] for name in names]).reshape(-1, len(seen.steps))
    flags = np.zeros(values.shape, np.uint8)
    if finding.symptom == "nonfinite":  # elsewhere NaN is "not known yet"
        flags[np.isnan(values)] = NAN
    finite = np.where(np.isfinite(values), values, np.nan)
    ends = seen.steps[0], seen.steps[-1]
    alone = len(names) == 1 and not within(names[0], finding.addresses)
    # The label of the axis names it.
    heat = Heat(() if alone else names, *ends, seen.steps, seen.steps, finite, flags)
    limits = _limits(seen) if names else []
    draw_lines(ax, theme, heat, seen.panel.label, seen.panel.scale, limits)
    _zones(ax, theme, seen, "y")
    if not names:
        say(ax, "this run holds none of these numbers", color=theme.muted)
    _when(ax, theme, finding)


def _limits(seen: Evidence) -> list[float]:
    return [end for zone in seen.zones for end in zone if 0 < end < math.inf]


def _when(ax: Axes, theme: Theme, finding: Finding) -> None:
    """Marks the steps that show it first and last, and the one that confirmed it."""
    faint: Style = {"color": theme.muted, "ls": (0, (4, 3)), "lw": 1.1}
    strong: Style = {"color": theme.ink, "ls": "-", "lw": 1.3}
    since = finding.since if finding.since != finding.step else None
    lines = (
        (since, "first seen", faint),
        (finding.step, "confirmed", strong),
        (finding.until, "last seen", faint),
    )
    for step, words, style in lines:
        if step is not None:
            ax.axvline(step, **style, zorder=3, label=f"{words} at step {step:,}")


def _zones(ax: Axes, theme: Theme, seen: Evidence, axis: str) -> None:
    """Colours the intervals that hold no number of a healthy training."""
    sick = theme.sick
    low, high = getattr(ax, f"get_{axis}lim")()
    draw, rule = (ax.axhspan, ax.axhline) if axis == "y" else (ax.axvspan, ax.axvline)
    for start, stop in seen.zones:
        ends = max(start, low), min(stop, high)
        if ends[0] < ends[1]:
            draw(*ends, color=sick, alpha=0.14, lw=0, zorder=0)
        for limit in (start, stop):
            if low < limit < high:
                rule(limit, color=sick, lw=1, alpha=0.7, zorder=1)
    if seen.zones:
        explain(ax, "not healthy", sick, alpha=0.25, edgecolor="none")


def _draw_depth(ax: Axes, theme: Theme, seen: Evidence, finding: Finding) -> None:
    """Draws numbers along depth, which runs down the page."""
    names = list(seen.lines)
    values = np.array([seen.lines[name][0] for name in names])
    guilty = np.array([within(name, finding.addresses) for name in names], bool)
    rows = np.arange(len(names))
    there = np.isfinite(values) & (values > 0)
    ends = log_limits([*values, *_limits(seen)], 2, 0.09, 0.09)
    ax.set_xscale("log")
    ax.set_xlim(*ends)
    log_ticks(ax.xaxis, *ends, 7)
    _zones(ax, theme, seen, "x")
    trend = np.where(there, values, np.nan)
    ax.plot(trend, rows, color=theme.hues[0], alpha=0.35, lw=1.2, zorder=2)
    well = marker("o", 6.5, theme.paper, color=theme.hues[0])
    sick = marker("D", 7.0, theme.paper, color=theme.sick, label="where it is")
    healthy, named = there & ~guilty, there & guilty
    points(ax, (values[healthy], rows[healthy]), well, zorder=4)
    points(ax, (values[named], rows[named]), sick, zorder=4)
    _edges(ax, theme, values, guilty)
    ax.set_ylim(len(names) - 0.4, -0.6)
    names_axis(ax, names)
    if len(names) <= MOST_NAMED:
        for label, bad in zip(ax.get_yticklabels(), guilty, strict=True):
            if bad:
                label.set_color(theme.sick)
    ax.spines.bottom.set_visible(True)
    ax.grid(axis="x")
    ax.set_xlabel(f"{seen.panel.label}, at step {int(seen.steps[0]):,}")


def _edges(ax: Axes, theme: Theme, values: Any, guilty: Any) -> None:
    """Draws at the left edge what a log scale cannot show."""
    edge = offset_copy(ax.get_yaxis_transform(), ax.get_figure(root=True), x=0.09)
    signs = ((values == 0, "o", "exactly zero"), (np.isnan(values), "|", "none"))
    groups = ((~guilty, theme.muted), (guilty, theme.sick))
    for (chosen, sign, label), (group, colour) in itertools.product(signs, groups):
        rows = np.flatnonzero(chosen & group)
        style = marker(sign, 7, colour, 1.7, markerfacecolor="none", label=label)
        at: Style = {"transform": edge, "clip_on": False, "zorder": 5}
        points(ax, (np.zeros(len(rows)), rows), style, **at)


def _draw_share(ax: Axes, finding: Finding, theme: Theme) -> None:
    """Draws a finding that is one share, as of rows that never moved."""
    share = finding.measured.value if finding.measured else None
    if share is None:
        say(ax, "what was measured is not known of this finding", color=theme.muted)
        ax.set_axis_off()
        return
    ax.barh([0], [1 - share], color=theme.hues[0], height=0.5)
    ax.barh([0], [share], left=[1 - share], color=theme.sick, alpha=0.55, height=0.5)
    ax.set(xlim=(0, 1), ylim=(-1, 1), yticks=[])
    ax.set_xticks([0, 0.5, 1], ["0%", "50%", "100%"])
    ax.annotate(f"{share:.1%} never moved", (1 - share / 2, 0.34), ha="center")
    ax.set_xlabel("rows of the embedding")
