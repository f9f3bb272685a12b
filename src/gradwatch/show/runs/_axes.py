"""Parts that all pictures of runs share: title, steps, names, badges, legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .. import palette
from .._figure import new_figure, note
from .._fold import fold
from .._format import printable
from .._marks import Block, blocks_of, spaced
from ..charts import NAN, NEGINF, POSINF
from ..palette import Theme
from ._badges import Badge, Findings

WIDTH = 9.5  # inches
MOST_NAMED = 60
GAMMA = 2.2  # equal parts of a ramp look equal in linear light


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything around the axes of a picture, and its colours.

    Attributes:
        title: The title.
        below: The line below it.
        findings: The badges, and the number of findings left out.
        theme: The colours.
    """

    title: str
    below: str
    findings: Findings
    theme: Theme


def nonfinite_signs(theme: Theme) -> tuple[tuple[int, str, str, str], ...]:
    """Returns the flag, the marker, the colour and the label of each kind."""
    return (
        (NAN, "x", theme.nan, "NaN"),
        (POSINF, "+", theme.posinf, "+∞"),
        (NEGINF, "_", theme.neginf, "−∞"),
    )


def ramp(theme: Theme) -> Colormap:
    """Returns the colours of a heat map, those of the Gradients tab."""
    stops = np.array([palette.rgb(stop) for stop in theme.ramp]) ** GAMMA
    at, known = np.linspace(0, 1, 256), np.linspace(0, 1, len(stops))
    shades = [np.interp(at, known, channel) for channel in stops.T]
    colours = (np.array(shades) ** (1 / GAMMA)).T
    return LinearSegmentedColormap.from_list("gradwatch", colours.tolist(), N=256)


@contextmanager
def run_figure(height: float, frame: Frame) -> Iterator[tuple[Figure, Axes, list[Any]]]:
    """Yields a figure, its axes, and the entries of its legend, to be filled."""
    with new_figure(WIDTH, height, frame.theme) as figure:
        ax, handles = figure.add_subplot(), list[Any]()
        yield figure, ax, handles
        _draw_badges(ax, frame.findings[0], frame.theme)
        text, below = printable(frame.title), printable(frame.below)
        ax.set_title(text, loc="left", fontweight="bold", pad=34, parse_math=False)
        note(ax, below, (0, 1), (0, 23), color=frame.theme.muted, fontsize=8.5)
        badges, left_out = frame.findings
        texts = [badge.label for badge in badges]
        texts += [f"and {left_out} more"] if left_out else []
        # The signs are explained first, then the badges.
        handles += (Line2D([], [], linestyle="none", label=text) for text in texts)
        if handles:
            columns = min(len(handles), 4 if texts else 6)
            where: dict[str, Any] = {"loc": "outside lower center", "ncols": columns}
            figure.legend(handles=handles, **where, handletextpad=0.6)


def steps_axis(ax: Axes, first: float, last: float) -> None:
    """Sets the axis of steps, whole numbers from the first to the last."""
    ax.set_xlim(first, last)
    ax.set_xlabel("step")
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))


def names_axis(ax: Axes, names: Sequence[str]) -> None:
    """Names each row, or blocks of rows where there are too many."""
    named = [(float(row), printable(name)) for row, name in enumerate(names)]
    blocks = [Block(name, row, row) for row, name in named]
    cells, size = 40, 8.5 if len(names) <= 40 else 7
    if len(names) > MOST_NAMED:
        # With more blocks than there is room for, some of the rows are named.
        every = -(-len(names) // 30)
        blocks = spaced(blocks_of(named), len(names) / 34) or blocks[::every]
        cells, size = 32, 8
    shown = fold([block.label for block in blocks], cells)
    ticks = [int(block.first + block.last) // 2 for block in blocks]
    labels = [shown[block.label] for block in blocks]
    ax.tick_params(axis="y", length=0)
    ax.set_yticks(ticks, labels, parse_math=False, fontsize=size)


def rows_height(count: int) -> float:
    """Returns the height of a figure of that many rows, in inches."""
    if count > MOST_NAMED:
        return 7.6
    return 1.9 + max(count, 4) * (0.24 if count <= 30 else 0.17)


def _draw_badges(ax: Axes, badges: Sequence[Badge], theme: Theme) -> None:
    """Puts the badges above the axes; those too close to another move aside."""
    low, high = ax.get_xlim()
    apart = (high - low) / 40
    taken: list[float] = []
    line = {"arrowstyle": "-", "color": theme.ink, "lw": 1.1}
    style: dict[str, Any] = {
        "ha": "center",
        "va": "center",
        "fontsize": 7,
        "fontweight": "bold",
        "color": theme.paper,
        "bbox": {"boxstyle": "circle,pad=0.22", "fc": theme.ink, "ec": "none"},
        "arrowprops": {**line, "shrinkA": 0, "shrinkB": 0},
        "annotation_clip": False,
        "zorder": 9,
    }
    for badge in badges:
        step = float(badge.step)
        while any(abs(step - other) < apart for other in taken):
            step += apart / 4
        taken.append(step)
        units = ("data", "axes fraction")
        note(ax, str(badge.number), (step, 1), (0, 9), units, **style)


def patch(colour: str, label: str) -> Patch:
    """Returns a legend entry for a colour of a heat map."""
    return Patch(facecolor=colour, edgecolor=palette.FAINT, linewidth=0.5, label=label)
