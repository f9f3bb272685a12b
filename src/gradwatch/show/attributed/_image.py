"""Pictures: the original, and beside it the heat of each method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from ..palette import Theme
from ._heat import heated, limit_of
from ._panel import Panel, broken, silent
from ._words import CHARACTER, caption, colour_bar, say_upon, wrapped_title

SIDE = 2.0  # inches of the longer side of a picture
BAR, BAR_WIDTH = 0.75, 0.07  # inches of a scale with its numbers, and without


class ImagePanel:
    """Examples as rows; the input, then a column for each panel.

    Args:
        panels: Of the same pictures, one for each method or layer.
        theme: The colours.
    """

    def __init__(self, panels: Sequence[Panel], theme: Theme) -> None:
        self.panels = panels
        self.theme = theme
        self.pictures = panels[0].base
        tall, wide = self.pictures.shape[1:3]
        # A line of a picture is to be seen: at least a sixth of the other side.
        self.side = [SIDE * max(n / max(tall, wide), 1 / 6) for n in (wide, tall)]
        columns = len(panels)
        longest = max(len(line) for panel in panels for line in panel.captions)
        self.width = max(
            0.4 + self.side[0] * (columns + 1) + BAR * columns,
            0.6 + self.side[0] + CHARACTER * min(longest, 60),
            4.6,
        )
        self.height = (self.side[1] + 0.42) * len(self.pictures) + 0.15

    def draw(self, part: SubFigure) -> None:
        """Draws everything into a part of a figure."""
        rows, columns = len(self.pictures), len(self.panels)
        wide = self.side[0]
        # Columns of their own for the scales: pictures are then all of one size.
        grid = part.subplots(
            *(rows, 1 + 2 * columns),
            squeeze=False,
            width_ratios=[wide] + [wide, BAR_WIDTH] * columns,
        )
        for row in range(rows):
            _picture(grid[row, 0], self.pictures[row])
            caption(grid[row, 0], self.panels[0].captions[row], self.theme)
            for column, panel in enumerate(self.panels):
                ax, scale = grid[row, 1 + 2 * column : 3 + 2 * column]
                self._heat(part, ax, scale, panel, row)

    def _heat(
        self, part: SubFigure, ax: Axes, scale: Axes, panel: Panel, row: int
    ) -> None:
        values = panel.values[row]
        limit = limit_of(values)
        _picture(ax, heated(self.pictures[row], values, panel, self.theme))
        if row == 0:
            title = wrapped_title(panel.heading, self.side[0] + BAR)
            ax.set_title(title, fontsize=9, fontweight="bold", parse_math=False)
        if words := silent(values):
            say_upon(ax, words, self.theme)
        if limit:
            scale.set_box_aspect(self.side[1] / BAR_WIDTH)  # as tall as the picture
            colour_bar(part, limit, self.theme, signed=panel.signed, cax=scale)
        else:
            scale.set_axis_off()
        if trouble := broken(values):
            ax.set_xlabel(trouble, fontsize=7.5, color=self.theme.alarm)


def _picture(ax: Axes, pixels: np.ndarray) -> None:
    grey: dict[str, Any] = (
        {"cmap": "gray", "vmin": 0, "vmax": 1} if pixels.ndim == 2 else {}
    )
    ax.imshow(np.clip(pixels, 0, 1), interpolation="nearest", **grey)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
