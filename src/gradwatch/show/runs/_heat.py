"""Draws layers × steps as a heat map: nothing is averaged, what is not finite shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, Normalize
from numpy.typing import NDArray

from .._figure import (
    PERCENT,
    Style,
    colour_scale,
    log_limits,
    log_ticks,
    marker,
)
from ..charts import NUMBER, STATES, UNMEASURED, ZERO, Heat, Quantity
from ..palette import Theme
from ._axes import (
    MOST_BADGES,
    MOST_NAMED,
    Badge,
    explain,
    names_axis,
    nonfinite_signs,
    ramp,
    steps_axis,
)

COLUMNS = 360  # buckets: two pixels each at the default size
_FEWEST = 60


def columns_for(steps: NDArray[np.int64], most: int = COLUMNS) -> int:
    """Returns the number of columns of which none is empty, as far as possible.

    Steps may be recorded often at first and seldom later.
    """
    if len(steps) < 2:
        return 1
    whole = int(steps[-1] - steps[0]) // int(np.diff(steps).max()) + 1
    return max(1, min(most, len(steps), max(whole, _FEWEST)))


def draw_heat(
    ax: Axes, theme: Theme, heat: Heat, quantity: Quantity, badges: Sequence[Badge]
) -> None:
    """Draws numbers by the ramp and the rest in colours of their own."""
    count = len(heat.names)
    box: Style = {"aspect": "auto", "extent": (heat.low, heat.high, count - 0.5, -0.5)}
    on_scale = (NUMBER,) if quantity.scale == "log" else (NUMBER, ZERO)
    # Masked where there is a number on the scale, or no step.
    hidden = np.isin(heat.states, on_scale) | (heat.first < 0)
    states = np.ma.masked_where(hidden, heat.states)
    known = states.mask & np.isfinite(heat.values)
    if known.any():
        share = quantity.scale == "share"
        ends = log_limits(heat.values.ravel(), 1)
        norm = Normalize(0.0, 1.0) if share else LogNorm(*ends)
        numbers = np.ma.masked_where(~known, heat.values)
        image = ax.imshow(numbers, norm=norm, cmap=ramp(theme), **box)
        axis = colour_scale(image, ax, quantity.axis_label)
        if share:
            axis.set_major_formatter(PERCENT)
        else:
            log_ticks(axis, *ends, 8)
    if states.count():
        own = [theme.unmeasured, theme.zero, theme.paper]
        own += [theme.neginf, theme.posinf, theme.nan]
        bounds = BoundaryNorm(np.arange(-0.5, len(own)), len(own))
        ax.imshow(states, norm=bounds, cmap=ListedColormap(own), **box)
    if count <= MOST_NAMED:  # a thin line of the page between two rows
        edges = np.arange(1, count) - 0.5
        ax.hlines(edges, heat.low, heat.high, theme.paper, lw=1.2, zorder=3)
    _draw_signs(ax, theme, heat, states.filled(-1))
    names_axis(ax, heat.names)
    label = "a finding: first seen to confirmed"
    for badge in badges[:MOST_BADGES]:
        for row in badge.rows:
            across = [badge.since, badge.step + 0.5]
            ax.plot(across, [row, row], color=theme.paper, lw=4, zorder=6)
            ax.plot(across, [row, row], color=theme.ink, lw=1.8, zorder=7, label=label)
            label = ""  # one entry in the legend
    steps_axis(ax, heat.low, heat.high)
    ax.tick_params("x", length=3.5)


def _draw_signs(ax: Axes, theme: Theme, heat: Heat, filled: NDArray[np.int_]) -> None:
    """Puts a sign where something not finite begins.

    A cell may be smaller than a pixel; a sign is not.
    """
    width = (heat.high - heat.low) / filled.shape[1]
    size = 6.0 if len(heat.names) <= MOST_NAMED else 3.5
    for flag, sign, colour, label in nonfinite_signs(theme):
        there = filled == STATES[flag]
        rows, columns = np.nonzero(there & ~np.pad(there, ((0, 0), (1, 0)))[:, :-1])
        if not len(rows):
            continue
        at = heat.low + (columns + 0.5) * width
        ax.plot(at, rows, **marker(sign, size + 2, theme.paper, 3.4), zorder=4)
        ax.plot(at, rows, **marker(sign, size, colour, 1.6), zorder=5, label=label)
    zero, unmeasured = (ZERO, "exactly zero"), (UNMEASURED, "not measured")
    for (state, label), colour in ((zero, theme.zero), (unmeasured, theme.unmeasured)):
        if state in filled:
            explain(ax, label, colour)
