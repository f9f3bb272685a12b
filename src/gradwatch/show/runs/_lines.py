"""Draws a few lines over steps, each with its name at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import offset_copy
from numpy.typing import NDArray

from ...run import Store
from .. import palette
from .._figure import new_figure
from .._flow_axis import powers_of_ten
from .._fold import fold
from .._format import printable
from ..charts import MEASURED, NAN, NEGINF, POSINF, curves
from ..charts._totals import CURVES
from ..palette import Theme
from ._axes import WIDTH, badges, head, legend, steps_axis
from ._heat import Seen, said
from ._marks import Mark, marks_of

DASHES = ("-", (0, (5, 1.6)), "-", (0, (3, 1.2, 1, 1.2)), "-", (0, (1.2, 1.2)))
SIGNS = ("o", "D", "s", "^", "P", "v")
_POINTS = 12  # of fewer numbers each is a point; so is one that stands alone
_SUMS = {
    "global_norm": "norm of all gradients",
    "loss": "loss",
    "learning_rate": "learning rate",
    "loss_scale": "loss scale",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        name: What stands at its end.
        steps: Where each number was recorded.
        values: The numbers; NaN where there is none to draw.
        flags: As in `Heat`.
    """

    name: str
    steps: NDArray[np.float64]
    values: NDArray[np.float64]
    flags: NDArray[np.uint8]


def draw_lines(store: Store, shown: Seen, title: str, theme: Theme) -> Figure:
    """Returns the figure of a few lines of a heat map."""
    there = shown.heat.first >= 0
    steps = shown.heat.last[there].astype(np.float64)
    lines = [
        Line(name, steps, values[there].astype(np.float64), flags[there])
        for name, values, flags in zip(
            shown.names, shown.heat.values, shown.heat.flags, strict=True
        )
    ]
    marks, left_out = marks_of(store.findings, shown.names)
    label = shown.quantity.label.replace("% ", "share ")
    text = Text(title, said(shown).replace("column", "point"), label)
    return draw(lines, text, shown.quantity.scale, (marks, left_out), theme)


def draw_totals(store: Store, name: str, title: str, theme: Theme) -> Figure:
    """Returns the figure of something that is said of each step as a whole.

    Raises:
        ValueError: If it was not measured at any step.
    """
    found = curves(store, count=720)
    at = CURVES.index(name)
    there = (found.first >= 0) & ((found.flags[at] & MEASURED) != 0)
    line = Line(
        _SUMS[name],
        found.last[there].astype(np.float64),
        found.high[at][there],
        found.flags[at][there],
    )
    positive = line.values[np.isfinite(line.values)]
    log = len(positive) > 0 and positive.min() > 0 and name != "loss"
    many = int((found.last - found.first).max()) > 0
    worst = " Of each point, the largest; NaN and ∞ come first." if many else ""
    text = Text(title, f"Of the step as a whole.{worst}", _SUMS[name])
    marks = marks_of(store.findings, ())
    return draw([line], text, "log" if log else "linear", marks, theme)


@dataclass(frozen=True, slots=True)
class Text:
    """What is written on a picture of lines."""

    title: str
    below: str
    label: str


def draw(
    lines: Sequence[Line],
    text: Text,
    scale: str,
    findings: tuple[list[Mark], int],
    theme: Theme,
) -> Figure:
    """Returns the figure of some lines."""
    with new_figure(WIDTH, 4.4, theme) as figure:
        ax = figure.add_subplot()
        drawn = [draw_line(ax, line, at, theme) for at, line in enumerate(lines)]
        first = min(float(line.steps[0]) for line in lines if len(line.steps))
        last = max(float(line.steps[-1]) for line in lines if len(line.steps))
        room = max((last - first) * 0.012, 0.5)
        steps_axis(ax, first - room, last + room)
        value_axis(ax, scale, [line.values for line in lines])
        ax.set_ylabel(text.label)
        name_lines(ax, drawn, [line.name for line in lines])
        handles = draw_signs(ax, lines, theme)
        finish(ax)
        badges(ax, findings[0], theme)
        head(ax, text.title, text.below, theme)
        legend(figure, handles, *findings)
    return figure


def finish(ax: Axes) -> None:
    """Takes away what is not needed to read it."""
    ax.grid(axis="y", color=palette.FAINT, linewidth=0.6)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(length=0)


def value_axis(ax: Axes, scale: str, values: Sequence[NDArray[np.float64]]) -> None:
    """Sets the scale, and room above for what is not finite."""
    there = np.concatenate([v[np.isfinite(v)] for v in values] or [np.empty(0)])
    if scale == "share":
        ax.set_ylim(-0.03, 1.08)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:.0%}"))
        return
    if scale != "log":
        return
    there = there[there > 0]
    low, high = (there.min(), there.max()) if len(there) else (0.1, 1.0)
    low, high = np.log10(low), np.log10(high)
    if high - low < 1:
        low, high = (low + high) / 2 - 0.5, (low + high) / 2 + 0.5
    room = 0.08 * (high - low)
    ends = 10 ** max(low - room, -323), 10 ** min(high + 1.5 * room, 308)
    # A part of the scale about zero is straight: exact zeros have a place on it.
    ax.set_yscale("log", nonpositive="mask")
    ax.set_ylim(*ends)
    ax.yaxis.set_major_locator(FixedLocator(powers_of_ten(*ends)))
    ax.yaxis.set_minor_locator(NullLocator())


def draw_line(ax: Axes, line: Line, at: int, theme: Theme) -> Line2D:
    """Draws a line; few numbers, and those that stand alone, are points too."""
    values = np.where(np.isfinite(line.values), line.values, np.nan)
    style: dict[str, Any] = {
        "color": theme.hues[at % len(theme.hues)],
        "linestyle": DASHES[at % len(DASHES)],
        "linewidth": 1.7,
        "zorder": 4,
    }
    there = np.isfinite(values)
    alone = there & ~np.pad(there, (1, 0))[:-1] & ~np.pad(there, (0, 1))[1:]
    points = there if there.sum() <= _POINTS else alone
    style["marker"] = SIGNS[at % len(SIGNS)]
    style["markersize"] = 4.5
    style["markevery"] = np.flatnonzero(points).tolist()
    return ax.plot(line.steps, values, **style)[0]


def name_lines(ax: Axes, drawn: Sequence[Line2D], names: Sequence[str]) -> None:
    """Writes names beside the ends of lines, moved apart where they would touch."""
    short = fold((printable(name) for name in names), 30)
    figure = ax.get_figure(root=True)
    height = ax.get_position().height * (figure.get_size_inches()[1] if figure else 4)
    apart = 0.155 / height  # of the axis
    ends: list[tuple[float, Line2D, str]] = []
    for line, name in zip(drawn, names, strict=True):
        y = np.asarray(line.get_ydata(), float)
        y = y[np.isfinite(y)]
        ends.append((_share(ax, float(y[-1])) if len(y) else 0.0, line, name))
    ends.sort(key=lambda end: end[0])
    places = [end[0] for end in ends]
    for at in range(1, len(places)):
        places[at] = max(places[at], places[at - 1] + apart)
    over = max(0.0, places[-1] - 1.0) if places else 0.0
    where = offset_copy(ax.transAxes, figure, x=0.08)
    for place, (_, line, name) in zip(places, ends, strict=True):
        ax.text(
            1,
            place - over,
            short[printable(name)],
            transform=where,
            color=line.get_color(),
            va="center",
            fontsize=8.5,
            parse_math=False,
        )


def _share(ax: Axes, value: float) -> float:
    """Returns how far up the axis a value is, 0 to 1."""
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log":
        if value <= 0:
            return 0.0
        low, high, value = np.log10(low), np.log10(high), np.log10(value)
    return float(np.clip((value - low) / (high - low), 0, 1))


def draw_signs(ax: Axes, lines: Sequence[Line], theme: Theme) -> list[Line2D]:
    """Puts what is not finite at the upper edge, and exact zeros at the lower."""
    kinds = (
        (NAN, "x", theme.nan, "NaN"),
        (POSINF, "+", theme.posinf, "+∞"),
        (NEGINF, "_", theme.neginf, "−∞"),
    )
    handles = []
    edge = ax.get_xaxis_transform()
    for flag, sign, colour, words in kinds:
        at = [line.steps[(line.flags & flag) != 0] for line in lines]
        steps = np.unique(np.concatenate([*at, np.empty(0)]))
        if len(steps):
            look: dict[str, Any] = {
                "marker": sign,
                "linestyle": "none",
                "markeredgecolor": colour,
                "markersize": 7,
                "markeredgewidth": 1.8,
                "label": words,
            }
            ax.plot(
                steps, [0.97] * len(steps), **look, transform=edge, clip_on=False,
                zorder=6,
            )  # fmt: skip
            handles.append(Line2D([], [], **look))
    handles += _zeros(ax, lines, theme)
    return handles


def _zeros(ax: Axes, lines: Sequence[Line], theme: Theme) -> list[Line2D]:
    if ax.get_yscale() != "log":
        return []
    look: dict[str, Any] = {
        "marker": "o",
        "linestyle": "none",
        "markerfacecolor": "none",
        "markersize": 4.5,
        "label": "exactly zero",
    }
    some = False
    for at, line in enumerate(lines):
        steps = line.steps[line.values == 0]
        if len(steps):
            some = True
            colour = theme.hues[at % len(theme.hues)]
            height = [0.015 + 0.02 * at] * len(steps)
            own = {**look, "markeredgecolor": colour, "clip_on": False}
            ax.plot(steps, height, **own, transform=ax.get_xaxis_transform())
    return [Line2D([], [], **look, markeredgecolor=theme.muted)] if some else []
