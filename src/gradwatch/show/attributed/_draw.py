"""A figure of several panels, each of its own kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from .._figure import new_figure
from ..palette import Theme
from ._bars import BarPanel
from ._image import ImagePanel
from ._lines import LinePanel
from ._panel import Panel, grouped
from ._tokens import TokenPanel
from ._words import wrapped_title

Group = ImagePanel | TokenPanel | BarPanel | LinePanel


def draw(panels: Sequence[Panel], title: str, theme: Theme) -> Figure:
    """Returns the figure of `plot_panels`."""
    groups = [_group(members, theme) for members in grouped(panels)]
    width = max(group.width for group in groups)
    words = wrapped_title(title, width)
    head = 0.12 + 0.2 * (1 + words.count("\n"))
    heights = [group.height for group in groups]
    with new_figure(width, sum(heights) + head, theme) as figure:
        figure.suptitle(
            words, x=0.02, ha="left", fontweight="bold", fontsize=10.5, parse_math=False
        )
        parts = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)
        for group, part in zip(groups, parts[:, 0], strict=True):
            part.set_facecolor(theme.paper)
            group.draw(part)
    return figure


def _group(panels: list[Panel], theme: Theme) -> Group:
    first = panels[0]
    if first.kind == "image":
        return ImagePanel(panels, theme)
    kinds: dict[str, Callable[[Panel, Theme], Group]]
    kinds = {"tokens": TokenPanel, "bars": BarPanel, "lines": LinePanel}
    return kinds[first.kind](first, theme)
