"""The figure of attributions. Only the files that draw import matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._plot import needs_matplotlib, theme_named
from ..palette import Theme, ThemeName
from ._panel import Panel, grouped

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
        from .._figure import new_figure
        from ._bars import bar_panel
        from ._image import image_panel
        from ._lines import line_panel
        from ._tokens import token_panel
        from ._words import wrapped_title
    kinds: dict[str, Callable[[list[Panel], Theme], Any]] = {
        "image": image_panel,
        "tokens": token_panel,
        "bars": bar_panel,
        "lines": line_panel,
    }
    groups = [kinds[members[0].kind](members, colours) for members in grouped(panels)]
    widths, heights, drawers = zip(*groups, strict=True)
    words = wrapped_title(title, max(widths))
    head = 0.12 + 0.2 * (1 + words.count("\n"))
    with new_figure(max(widths), sum(heights) + head, colours) as figure:
        style: Any = {"fontweight": "bold", "fontsize": 10.5, "parse_math": False}
        figure.suptitle(words, x=0.02, ha="left", **style)
        parts = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)
        for draw_group, part in zip(drawers, parts[:, 0], strict=True):
            part.set_facecolor(colours.paper)
            draw_group(part)
    return figure
