"""Draws the histogram of one gradient over steps, on a log scale with sign."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ...run import Run, Series
from ...summarise import LOWEST, OCTAVES
from .. import palette
from .._figure import PERCENT, Style, colour_scale
from ..charts import NONFINITE, Heat, histograms
from ..palette import Theme
from ._axes import explain, ramp, run_figure, steps_axis
from ._lines import draw_signs

MOST = 320  # histograms in a picture
_NEAR = 0.995  # share of the elements that is drawn at least
_GAP = 1.6  # octaves between minus and plus, where zeros are


def draw_histogram(run: Run, series: Series, theme: Theme) -> Figure:
    """Returns the figure; the series has histograms."""
    steps, counts = histograms(run, series.name, count=MOST)
    recorded = np.searchsorted(series.steps, steps)
    zeros = np.nan_to_num(series.zeros[recorded].filled(np.nan))
    total = counts.sum(axis=1) / np.maximum(1 - zeros, 1e-12)
    shares = counts / np.maximum(total, 1)[:, None]
    low, high = _octaves(counts)
    count = len(series.histogram_steps)
    part = f", {MOST:,} of the {count:,} recorded" if count > MOST else ""
    meaning = "How the elements of the unscaled gradient before clipping lie along the"
    words = f"Gradient of {series.name}", f"{meaning} number line{part}."
    with run_figure(run, words, (), 4.8, theme) as (figure, ax):
        edges = _edges(steps)
        norm = PowerNorm(0.6, 0.0, float(shares.max()) or 1.0)
        style: Style = {"norm": norm, "cmap": ramp(theme), "linewidth": 0}
        span, half = high - low + 1, _GAP / 2
        up = half + np.arange(span + 1)
        shares = np.ma.masked_equal(shares, 0)  # nothing there: the page
        above = shares[:, OCTAVES + low : OCTAVES + high + 1]
        below = shares[:, OCTAVES - 1 - high : OCTAVES - low]
        mesh = ax.pcolormesh(edges, up, above.T, **style)
        ax.pcolormesh(edges, -up[::-1], below.T, **style)
        if zeros.any():
            ax.pcolormesh(edges, [-half * 0.7, half * 0.7], zeros[None], **style)
        _value_axis(ax, low, span)
        steps_axis(ax, float(edges[0]), float(edges[-1]))
        # All recorded steps, with or without histogram, as flags only.
        kinds = NONFINITE.items()
        bad = [np.uint8(f) * (getattr(series, n).filled(0) > 0) for n, f in kinds]
        every, flags = series.steps, np.bitwise_or.reduce(bad)[None]
        nothing = np.full(flags.shape, np.nan)
        heat = Heat((series.name,), every[0], every[-1], every, every, nothing, flags)
        draw_signs(ax, theme, heat)
        if zeros.any():
            explain(ax, "middle line: exact zeros", theme.ramp[2])
        ax.axhline(0, color=palette.FAINT, lw=0.8, zorder=0)
        axis = colour_scale(mesh, ax, "share of its elements")
        axis.set_major_formatter(PERCENT)
        axis.set_major_locator(MaxNLocator(5))
    return figure


def _octaves(counts: NDArray[np.int64]) -> tuple[int, int]:
    """Returns the first and the last octave that are drawn, counted from `LOWEST`.

    They hold all but half a per cent of the elements at each end, over all steps, and
    are at least eight: one element in a million would make the rest a thin line.
    """
    both = counts[:, OCTAVES:] + counts[:, OCTAVES - 1 :: -1]
    both = both / np.maximum(both.sum(axis=1, keepdims=True), 1)
    # The widest of all steps, so that none is cut off.
    along = np.cumsum(both, axis=1)
    full = along[:, -1] > 0
    if not full.any():
        return -LOWEST - 8, -LOWEST
    lows = np.argmax(along[full] > 1 - _NEAR, axis=1)
    highs = OCTAVES - 1 - np.argmax(both[full][:, ::-1] > 0, axis=1)
    low, high = int(lows.min()), int(highs.max())
    return max(0, min(low, high - 7)), high


def _edges(steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns where the column of each step begins and ends: half way to the next."""
    gaps = np.diff(steps) if len(steps) > 1 else np.ones(1)
    padded = np.array([steps[0] - gaps[0], *steps, steps[-1] + gaps[-1]], np.float64)
    return (padded[1:] + padded[:-1]) / 2


def _value_axis(ax: Axes, low: int, count: int) -> None:
    """Sets ticks at powers of ten, mirrored; between minus and plus stand zeros."""
    half = _GAP / 2
    first = math.ceil((low + LOWEST) * math.log10(2))
    last = math.floor((low + LOWEST + count) * math.log10(2))
    every = max(1, math.ceil((last - first + 1) / 5))
    ticks, labels = [0.0], ["0"]
    for power in range(last, first - 1, -every):
        height = half + power / math.log10(2) - LOWEST - low
        if height < half + 0.07 * count:  # it would touch the zero
            continue
        ticks += [height, -height]
        labels += [f"$10^{{{power}}}$", f"$-10^{{{power}}}$"]
    ax.set_yticks(ticks, labels)
    ax.set_ylim(-half - count - 0.2, half + count + 1.2)
    ax.set_ylabel("one element of the gradient")
