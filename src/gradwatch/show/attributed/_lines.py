"""Series: their lines on a coloured ground, and a strip of heat for each channel."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from .. import palette
from .._format import printable
from ..palette import Theme, rgb
from ._heat import heat, limit_of, over
from ._panel import Panel, silent
from ._words import Drawing, below, caption, colour_bar, say_upon

STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))


def line_panel(panels: list[Panel], theme: Theme) -> Drawing:
    """Returns examples below each other, time to the right."""
    [panel] = panels
    rows = len(panel.values)

    def draw(part: SubFigure) -> None:
        for row, own in enumerate(part.subfigures(rows, 1, squeeze=False)[:, 0]):
            own.set_facecolor(theme.paper)
            _example(own, panel, row, theme)

    return 8.0, rows * (1.85 + 0.2 * panel.strips) + 0.1, draw


def _example(part: SubFigure, panel: Panel, row: int, theme: Theme) -> None:
    strips, values = panel.strips, panel.values[row]
    ratios = [1.1, 0.2 * strips] if strips else [1]
    style: Any = {"sharex": True, "squeeze": False, "height_ratios": ratios}
    axes = part.subplots(len(ratios), 1, **style)[:, 0]
    total = values.sum(axis=-1)
    limit = limit_of(values if strips else total)

    def pixels(numbers: np.ndarray) -> np.ndarray:
        colours = heat(numbers, limit, signed=panel.signed, theme=theme)
        return over(rgb(theme.paper), colours)

    above = axes[0]
    caption(above, panel.captions[row], theme)
    # In units of the axes, so that the lines alone decide on the scale.
    above.imshow(
        pixels(total[None]), extent=(-0.5, len(total) - 0.5, 0, 1), aspect="auto",
        transform=above.get_xaxis_transform(), zorder=0,
    )  # fmt: skip
    ends = _draw_data(above, panel, row, theme)
    above.set(xlim=(-0.5, len(values) - 0.5), ylim=ends)
    if strips:
        axes[1].imshow(pixels(values.T), aspect="auto")
        names = [printable(name)[:20] for name in panel.labels[0]]
        axes[1].set_yticks(range(strips), names, parse_math=False)
        for strip in range(1, strips):
            axes[1].axhline(strip - 0.5, color=palette.FAINT, linewidth=0.5)
    for ax in axes:
        ax.tick_params(labelsize=8)
    # Between two steps of time there is none.
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    if strips:
        above.tick_params(labelbottom=False)
    if words := silent(values):
        say_upon(above, words, theme)
    elif limit:
        options = {"fraction": 0.04, "pad": 0.02, "aspect": 16}
        colour_bar(part, limit, theme, signed=panel.signed, ax=[*axes], **options)
    below(axes[-1], values, theme, panel.heading)


def _draw_data(ax: Axes, panel: Panel, row: int, theme: Theme) -> tuple[float, float]:
    """Draws the lines, and returns the ends of their axis."""
    data, names = panel.lines(row)
    for line, name, style in zip(data.T, names, STYLES, strict=False):
        ax.plot(line, color=theme.ink, linewidth=1.1, linestyle=style, label=name)
    if len(names) > 1 or not panel.strips:
        ax.legend(
            loc="lower right", bbox_to_anchor=(1, 0.98), fontsize=7.5,
            ncols=len(names), handletextpad=0.5, borderaxespad=0,
        )  # fmt: skip
    finite = data[np.isfinite(data)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    room = 0.06 * (high - low) or 1.0
    return float(low - room), float(high + room)
