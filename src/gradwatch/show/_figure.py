"""A figure in our style that leaves no trace in pyplot, and the parts figures share."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.style import context
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from . import palette
from .static import STATIC

PERCENT = FuncFormatter(lambda share, _: f"{share:.0%}")
Style = dict[str, Any]
Point = tuple[float, float]


class ShownFigure(Figure):
    """A figure that is not in pyplot's list and that a notebook shows all the same.

    IPython learns to show figures when `pyplot` is imported, which we do not do; for
    any other object it asks `_repr_png_`. Once it has learned, that comes first, so a
    figure is never shown twice.
    """

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


@contextmanager
def new_figure(width: float, height: float, theme: palette.Theme) -> Iterator[Figure]:
    """Yields a figure to draw on in our style, independent of the style set outside."""
    inks = ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor")
    colours = {
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), theme.paper),
        **dict.fromkeys(inks, theme.ink),
        **dict.fromkeys(("xtick.color", "ytick.color"), theme.muted),
    }
    with context(["default", STATIC / "gradwatch.mplstyle", colours]):
        figure = ShownFigure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def marker(sign: str, size: float, edge: Any, width: float = 1.0, **more: Any) -> Style:
    """Returns the style of points that no line connects."""
    style = {"marker": sign, "markersize": size, "markeredgecolor": edge}
    return {**style, "markeredgewidth": width, "linestyle": "none", **more}


def points(ax: Axes, at: Any, style: Style, **more: Any) -> None:
    """Draws points, which a legend explains if there are any."""
    if len(at[0]):
        ax.plot(*at, **style, **more)


def log_limits(
    values: Iterable[float], decades: float, below: float = 0.0, above: float = 0.0
) -> tuple[float, float]:
    """Returns the ends of a log scale for the positive values among these.

    Args:
        values: The numbers to show.
        decades: Least number of powers of ten between the ends, so that the scale can
            be read.
        below: Room below the smallest value, as a share of the range.
        above: Room above the largest value, likewise.
    """
    numbers = np.asarray(list(values), float)
    there = numbers[np.isfinite(numbers) & (numbers > 0)]
    low, high = np.log10([there.min(), there.max()]) if len(there) else (-decades, 0.0)
    if high - low < decades:
        low, high = (low + high - decades) / 2, (low + high + decades) / 2
    span = high - low
    # The last float64 numbers: 10 ** -324 is 0, which no log axis has.
    ends = max(-323.0, low - below * span), min(308.0, high + above * span)
    return float(10 ** ends[0]), float(10 ** ends[1])


def log_ticks(axis: Axis, low: float, high: float, most: int = 11) -> None:
    """Puts ticks at powers of ten only; `LogLocator` overflows near 1e308."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = math.ceil((last - first + 1) / most)
    powers = range(first + -first % step, last + 1, step)
    axis.set_major_locator(FixedLocator([10.0**power for power in powers]))
    axis.set_minor_locator(NullLocator())


def colour_scale(image: ScalarMappable, ax: Axes, label: str) -> Axis:
    """Draws the scale of an image beside its axes, and returns its axis."""
    figure: Any = ax.get_figure(root=True)
    bar = figure.colorbar(image, ax=ax, pad=0.015, fraction=0.03, aspect=30)
    bar.outline.set_visible(False)
    bar.set_label(label)
    bar.ax.yaxis.set_minor_locator(NullLocator())
    axis: Axis = bar.ax.yaxis
    return axis


def inches(ax: Axes) -> tuple[float, float]:
    """Returns the width and height of axes on paper, before any layout."""
    dpi = ax.figure.dpi
    return ax.bbox.width / dpi, ax.bbox.height / dpi


def note(
    ax: Axes,
    text: str,
    at: Point,
    shift: Point,
    units: Any = "axes fraction",
    **style: Any,
) -> None:
    """Writes a text at a point of the axes, shifted by points; never read as TeX."""
    style = {"textcoords": "offset points", "parse_math": False, **style}
    ax.annotate(text, at, shift, xycoords=units, **style)


def say(ax: Axes, text: str, **style: Any) -> None:
    """Writes a text in the middle of axes that have nothing else to show."""
    centred: Style = {"ha": "center", "va": "center", "parse_math": False}
    ax.text(0.5, 0.5, text, transform=ax.transAxes, **centred, **style)
