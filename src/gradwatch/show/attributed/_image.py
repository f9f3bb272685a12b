"""Pictures: the original, and beside it the heat of each method."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from ..palette import Theme
from ._heat import heated, limit_of
from ._panel import Panel, broken, silent
from ._words import (
    CHARACTER,
    Drawing,
    caption,
    colour_bar,
    say_upon,
    wrapped_title,
)

SIDE = 2.0  # inches of the longer side of a picture
BAR, BAR_WIDTH = 0.75, 0.07  # inches of a scale with its numbers, and without


def image_panel(panels: list[Panel], theme: Theme) -> Drawing:
    """Returns examples as rows; the input, then a column for each panel.

    Args:
        panels: Of the same pictures, one for each method or layer.
        theme: The colours.
    """
    pictures = panels[0].base
    shape = pictures.shape[1:3]
    # A line of a picture is to be seen: at least a sixth of the other side.
    tall, wide = (SIDE * max(n / max(shape), 1 / 6) for n in shape)
    columns = len(panels)

    def draw(part: SubFigure) -> None:
        # Columns of their own for the scales: pictures are then all of one size.
        ratios = [wide] + [wide, BAR_WIDTH] * columns
        cells = (len(pictures), len(ratios))
        grid = part.subplots(*cells, squeeze=False, width_ratios=ratios)
        for row, picture in enumerate(pictures):
            _picture(grid[row, 0], picture)
            caption(grid[row, 0], panels[0].captions[row], theme)
            for column, panel in enumerate(panels):
                ax, scale = grid[row, 1 + 2 * column : 3 + 2 * column]
                values = panel.values[row]
                _picture(ax, heated(picture, values, panel, theme))
                if row == 0:
                    title = wrapped_title(panel.heading, wide + BAR)
                    ax.set_title(title, fontsize=9, fontweight="bold", parse_math=False)
                if words := silent(values):
                    say_upon(ax, words, theme)
                if limit := limit_of(values):
                    scale.set_box_aspect(tall / BAR_WIDTH)  # as tall as the picture
                    colour_bar(part, limit, theme, signed=panel.signed, cax=scale)
                else:
                    scale.set_axis_off()
                if trouble := broken(values):
                    ax.set_xlabel(trouble, fontsize=7.5, color=theme.alarm)

    longest = max(len(line) for panel in panels for line in panel.captions)
    pictures_wide = 0.4 + wide * (columns + 1) + BAR * columns
    width = max(pictures_wide, 0.6 + wide + CHARACTER * min(longest, 60), 4.6)
    return width, (tall + 0.42) * len(pictures) + 0.15, draw


def _picture(ax: Axes, pixels: np.ndarray) -> None:
    # A picture without colours is grey; one with them needs no scale.
    ax.imshow(np.clip(pixels, 0, 1), "gray", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
