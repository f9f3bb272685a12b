"""Series: their lines on a coloured ground, and a strip of heat for each channel."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from .. import palette
from ..palette import Theme, rgb
from ._heat import heat, limit_of, over
from ._panel import Panel, broken, readable, silent
from ._words import caption, colour_bar, say_upon

STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))


class LinePanel:
    """Examples below each other, time to the right.

    Args:
        panel: The panel to draw.
        theme: The colours.
    """

    def __init__(self, panel: Panel, theme: Theme) -> None:
        self.panel = panel
        self.theme = theme
        self.strips = panel.strips
        self.width = 8.0
        self.height = len(panel.values) * (1.85 + 0.2 * self.strips) + 0.1

    def draw(self, part: SubFigure) -> None:
        """Draws everything into a part of a figure."""
        rows = len(self.panel.values)
        parts = part.subfigures(rows, 1, squeeze=False)[:, 0]
        for row, own in enumerate(parts):
            own.set_facecolor(self.theme.paper)
            self._example(own, row)

    def _example(self, part: SubFigure, row: int) -> None:
        panel, theme = self.panel, self.theme
        ratios = [1.1, 0.2 * self.strips] if self.strips else [1]
        axes = part.subplots(
            len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios
        )[:, 0]
        values = panel.values[row]
        total = values.sum(axis=-1)
        limit = limit_of(values if self.strips else total)
        above = axes[0]
        caption(above, panel.captions[row], theme)
        self._ground(above, total, limit)
        low, high = self._draw_data(above, row)
        above.set(xlim=(-0.5, len(values) - 0.5), ylim=(low, high))
        if self.strips:
            self._draw_strips(axes[1], values, limit)
        for ax in axes:
            ax.spines[:].set_visible(False)
            ax.tick_params(length=0, labelsize=8)
        # Between two steps of time there is none.
        axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        if self.strips:
            above.tick_params(labelbottom=False)
        if words := silent(values):
            say_upon(above, words, theme)
        elif limit:
            options = {"fraction": 0.04, "pad": 0.02, "aspect": 16}
            colour_bar(part, limit, theme, signed=panel.signed, ax=[*axes], **options)
        trouble = broken(values)
        tone = theme.alarm if trouble else theme.muted
        axes[-1].set_xlabel(
            trouble or panel.heading, fontsize=8, color=tone, parse_math=False
        )

    def _pixels(self, values: np.ndarray, limit: float) -> np.ndarray:
        colours = heat(values, limit, signed=self.panel.signed, theme=self.theme)
        return over(rgb(self.theme.paper), colours)

    def _ground(self, ax: Axes, total: np.ndarray, limit: float) -> None:
        pixels = self._pixels(total[None], limit)
        # In units of the axes, so that the lines alone decide on the scale.
        box = (-0.5, len(total) - 0.5, 0, 1)
        transform = ax.get_xaxis_transform()
        ax.imshow(
            pixels, extent=box, aspect="auto", transform=transform, zorder=0,
            interpolation="nearest",
        )  # fmt: skip

    def _draw_data(self, ax: Axes, row: int) -> tuple[float, float]:
        """Draws the lines, and returns the ends of their axis."""
        ink = self.theme.ink
        data, names = self.panel.lines(row)
        for line, name, style in zip(data.T, names, STYLES, strict=False):
            ax.plot(line, color=ink, linewidth=1.1, linestyle=style, label=name)
        if len(names) > 1 or not self.strips:
            ax.legend(
                loc="lower right", bbox_to_anchor=(1, 0.98), fontsize=7.5,
                ncols=len(names), handletextpad=0.5, borderaxespad=0,
            )  # fmt: skip
        finite = data[np.isfinite(data)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
        room = 0.06 * (high - low) or 1.0
        return float(low - room), float(high + room)

    def _draw_strips(self, ax: Axes, values: np.ndarray, limit: float) -> None:
        pixels = self._pixels(values.T, limit)
        ax.imshow(pixels, aspect="auto", interpolation="nearest")
        names = [readable(name)[:20] for name in self.panel.labels[0]]
        ax.set_yticks(range(len(names)), names, parse_math=False)
        for row in range(1, len(names)):
            ax.axhline(row - 0.5, color=palette.FAINT, linewidth=0.5)
