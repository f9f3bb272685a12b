"""Draws layers × steps as a heat map: nothing is averaged, what is not finite shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from ...run import Store
from .._figure import new_figure
from .._flow_axis import powers_of_ten
from ..charts import MEASURED, NAN, NEGINF, POSINF, Heat, Quantity, heat
from ..palette import Theme
from ._axes import (
    WIDTH,
    badges,
    head,
    legend,
    names_axis,
    patch,
    ramp,
    rows_height,
    steps_axis,
)
from ._marks import marks_of

COLUMNS = 360  # buckets: two pixels each at the default size
_FEWEST = 60
UNMEASURED, ZERO, IS_NAN, IS_POSINF, IS_NEGINF = range(5)
"""What the second image of a heat map says of a cell that has no place on the scale."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is drawn.

    Attributes:
        quantity: Of each cell.
        names: Of the lines.
        heat: The numbers, of these lines only.
    """

    quantity: Quantity
    names: list[str]
    heat: Heat

    @property
    def states(self) -> np.ma.MaskedArray[Any, Any]:
        """Of each cell what has no place on the scale; masked where it has one."""
        values, flags = self.heat.values, self.heat.flags
        found = np.full(values.shape, -1, np.int8)
        found[(flags & MEASURED) == 0] = UNMEASURED
        if self.quantity.scale == "log":
            found[values == 0] = ZERO
        for flag, state in ((NEGINF, IS_NEGINF), (POSINF, IS_POSINF), (NAN, IS_NAN)):
            found[(flags & flag) != 0] = state
        found[:, self.heat.first < 0] = -1
        return np.ma.masked_less(found, 0)


def columns_for(steps: NDArray[np.int64], most: int = COLUMNS) -> int:
    """Returns in how many columns no one is empty, as far as that can be.

    Steps may be recorded often at first and seldom later.
    """
    if len(steps) < 2:
        return 1
    widest = int(np.diff(steps).max())
    whole = int(steps[-1] - steps[0]) // widest + 1
    return max(1, min(most, len(steps), max(whole, _FEWEST)))


def seen(store: Store, quantity: Quantity, kind: str, lines: list[int]) -> Seen:
    """Returns what a picture of these lines shows."""
    known = store.names(kind)
    found = heat(store, quantity, kind, count=columns_for(store.steps))
    own = Heat(
        found.low,
        found.high,
        found.first,
        found.last,
        found.values[lines],
        found.flags[lines],
    )
    return Seen(quantity, [known[line] for line in lines], own)


def draw_heat(store: Store, shown: Seen, title: str, theme: Theme) -> Figure:
    """Returns the figure."""
    marks, left_out = marks_of(store.findings, shown.names)
    with new_figure(WIDTH, rows_height(len(shown.names)), theme) as figure:
        ax = figure.add_subplot()
        image = _paint(ax, shown, theme)
        handles = _signs(ax, shown, theme)
        steps_axis(ax, shown.heat.low, shown.heat.high)
        names_axis(ax, shown.names)
        ax.spines[:].set_visible(False)
        for mark in marks:
            for line in mark.lines:
                across = [mark.since, mark.step + 0.5]
                ax.plot(across, [line, line], color=theme.paper, lw=4, zorder=6)
                ax.plot(across, [line, line], color=theme.ink, lw=1.8, zorder=7)
        steps_axis(ax, shown.heat.low, shown.heat.high)
        badges(ax, marks, theme)
        head(ax, title, said(shown), theme)
        if image is not None:
            _scale(figure, ax, image, shown)
        if any(mark.lines for mark in marks):
            words = "a finding: first seen to sure"
            handles.append(Line2D([], [], color=theme.ink, lw=1.8, label=words))
        legend(figure, handles, marks, left_out)
    return figure


def said(shown: Seen) -> str:
    """Returns in words what is drawn, and how much is behind a column."""
    recorded = shown.heat.first >= 0
    spans = (shown.heat.last - shown.heat.first)[recorded]
    many = len(spans) and int(spans.max()) > 0
    worst = " Of each column, the largest; NaN and ∞ come first." if many else ""
    return f"{shown.quantity.meaning}{worst}"


def limits(quantity: Quantity, values: NDArray[np.float64]) -> tuple[float, float]:
    """Returns the ends of the scale; at least two powers of ten of logarithms."""
    if quantity.scale == "share":
        return 0.0, 1.0
    there = values[np.isfinite(values) & (values > 0)]
    if not len(there):
        return 0.1, 1.0
    low, high = np.log10(float(there.min())), np.log10(float(there.max()))
    if high - low < 1:
        low, high = (low + high) / 2 - 0.5, (low + high) / 2 + 0.5
    return float(10 ** max(low, -323)), float(10 ** min(high, 308))


def _paint(ax: Axes, shown: Seen, theme: Theme) -> AxesImage | None:
    """Draws the cells: numbers by the ramp, the rest in colours of their own."""
    values, states = shown.heat.values, shown.states
    box: dict[str, Any] = {
        "extent": (shown.heat.low, shown.heat.high, len(shown.names) - 0.5, -0.5),
        "aspect": "auto",
        "interpolation": "nearest",
    }
    low, high = limits(shown.quantity, values)
    log = shown.quantity.scale == "log"
    norm = LogNorm(low, high) if log else Normalize(low, high)
    number = np.ma.masked_where(~states.mask | ~np.isfinite(values), values)
    image = None
    if number.count():
        image = ax.imshow(number, norm=norm, cmap=ramp(theme), **box)
    if states.count():
        own = (theme.unmeasured, theme.zero, theme.nan, theme.posinf, theme.neginf)
        bounds = BoundaryNorm(np.arange(-0.5, len(own)), len(own))
        ax.imshow(states, norm=bounds, cmap=ListedColormap(own), **box)
    if len(shown.names) <= 60:  # a thin line of the page between two lines
        for line in range(1, len(shown.names)):
            ax.axhline(line - 0.5, color=theme.paper, lw=1.2, zorder=3)
    return image


def _signs(ax: Axes, shown: Seen, theme: Theme) -> list[Any]:
    """Puts a sign where something not finite begins, and returns the legend.

    A cell may be smaller than a pixel; a sign is not.
    """
    states, heat = shown.states, shown.heat
    filled = states.filled(-1)
    width = (heat.high - heat.low) / filled.shape[1]
    handles: list[Any] = []
    for state, sign, colour, words in (
        (IS_NAN, "x", theme.nan, "NaN"),
        (IS_POSINF, "+", theme.posinf, "+∞"),
        (IS_NEGINF, "_", theme.neginf, "−∞"),
    ):
        there = filled == state
        if not there.any():
            continue
        begins = there & ~np.pad(there, ((0, 0), (1, 0)))[:, :-1]
        lines, columns = np.nonzero(begins)
        size = 6.0 if len(shown.names) <= 60 else 3.5
        look: dict[str, Any] = {"marker": sign, "linestyle": "none", "label": words}
        at = heat.low + (columns + 0.5) * width
        edge: dict[str, Any] = {"markeredgecolor": theme.paper, "markersize": size + 2}
        ax.plot(at, lines, **look, **edge, markeredgewidth=3.4, zorder=4)
        own: dict[str, Any] = {
            "markeredgecolor": colour,
            "markersize": size,
            "markeredgewidth": 1.6,
        }
        ax.plot(at, lines, **look, **own, zorder=5)
        handles.append(Line2D([], [], **look, **own))
    for state, colour, words in (
        (ZERO, theme.zero, "exactly zero"),
        (UNMEASURED, theme.unmeasured, "not measured"),
    ):
        if (filled == state).any():
            handles.append(patch(colour, words))
    return handles


def _scale(figure: Figure, ax: Axes, image: AxesImage, shown: Seen) -> None:
    quantity = shown.quantity
    bar = figure.colorbar(image, ax=ax, pad=0.015, fraction=0.03, aspect=30)
    bar.outline.set_visible(False)
    bar.set_label(quantity.label.replace("% ", "share "))
    bar.ax.tick_params(length=0)
    bar.ax.yaxis.set_minor_locator(NullLocator())
    if quantity.scale == "share":
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:.0%}"))
        return
    powers = powers_of_ten(*limits(quantity, shown.heat.values), 8)
    bar.ax.yaxis.set_major_locator(FixedLocator(powers))
