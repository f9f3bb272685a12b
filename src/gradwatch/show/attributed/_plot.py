"""The figure of attributions. Only the files that draw import matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._plot import needs_matplotlib, theme_named
from ..palette import ThemeName
from ._panel import Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_panels(
    panels: Sequence[Panel], *, title: str, theme: ThemeName = "light"
) -> Figure:
    """Returns a figure of the panels, below each other; pictures side by side.

    Example:
    >>> import numpy as np
    >>> values = np.array([[0.5, -1.0]])
    >>> names = [["height", "age"]]
    >>> panel = Panel(
    ...     "bars", "inputs", "saliency", values, values, names, ["score = 2"]
    ... )
    >>> len(plot_panels([panel], title="why").axes)
    1

    Args:
        panels: The panels to draw.
        title: The line above everything.
        theme: "light" or "dark".

    Raises:
        ImportError: If matplotlib is not installed.
    """
    colours = theme_named(theme)
    with needs_matplotlib():
        from ._draw import draw
    return draw(list(panels), title, colours)
