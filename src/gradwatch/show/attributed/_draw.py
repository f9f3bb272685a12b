"""A figure of several panels, each of its own kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from .._figure import new_figure
from ..palette import Theme
from ._bars import bar_panel
from ._image import image_panel
from ._lines import line_panel
from ._panel import Panel, grouped
from ._tokens import token_panel
from ._words import Drawing, wrapped_title

_KINDS: dict[str, Callable[[list[Panel], Theme], Drawing]] = {
    "image": image_panel,
    "tokens": token_panel,
    "bars": bar_panel,
    "lines": line_panel,
}


def draw(panels: Sequence[Panel], title: str, theme: Theme) -> Figure:
    """Returns the figure of `plot_panels`."""
    groups = [_KINDS[members[0].kind](members, theme) for members in grouped(panels)]
    widths, heights, drawers = zip(*groups, strict=True)
    words = wrapped_title(title, max(widths))
    head = 0.12 + 0.2 * (1 + words.count("\n"))
    with new_figure(max(widths), sum(heights) + head, theme) as figure:
        figure.suptitle(
            words, x=0.02, ha="left", fontweight="bold", fontsize=10.5, parse_math=False
        )
        parts = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)
        for draw_group, part in zip(drawers, parts[:, 0], strict=True):
            part.set_facecolor(theme.paper)
            draw_group(part)
    return figure
