"""A figure of our own: our style, no trace in pyplot, shown by notebooks."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.style import context

from . import palette

_STYLE: dict[str, Any] = {
    "axes.edgecolor": palette.FAINT,
    "axes.axisbelow": True,
    "font.size": 9.0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.columnspacing": 1.4,
    "legend.handletextpad": 0.2,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.1,
}


def _colours(theme: palette.Theme) -> dict[str, Any]:
    return {
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
    }


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
def new_figure(
    width: float, height: float, theme: palette.Theme = palette.THEMES["light"]
) -> Iterator[Figure]:
    """Gives a figure to draw on in our style, whatever style is set outside."""
    with context(["default", _STYLE, _colours(theme)]):
        figure = ShownFigure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
