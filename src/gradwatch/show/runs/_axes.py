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
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ...diagnose import within
from ...run import Run
from .. import palette
from .._figure import new_figure, note
from .._fold import fold, middle
from .._format import printable
from .._marks import Block, blocks_of, spaced
from ..charts import STATES
from ..palette import Theme

WIDTH = 9.5  # inches
_TITLE = 84  # letters of a title that a figure has room for
MOST_BADGES = 6  # findings that are marked: more would not be read
MOST_NAMED = 60
GAMMA = 2.2  # equal parts of a ramp look equal in linear light


@dataclass(frozen=True, slots=True)
class Badge:
    """A finding in a picture: a numbered badge, explained in the legend.

    Attributes:
        label: Its entry in the legend.
        since: The first step that shows it.
        step: The step at which it was confirmed.
        rows: The indices of the rows it concerns; empty: the whole run.
    """

    label: str
    since: int
    step: int
    rows: tuple[int, ...]


def badges_of(run: Run, names: Sequence[str]) -> list[Badge]:
    """Returns the badges of a picture of the rows of these names, in order of time.

    A finding that concerns none of them has no badge.
    """
    badges: list[Badge] = []
    for finding in sorted(run.findings, key=lambda finding: int(finding["step"])):
        addresses = [str(name) for name in finding.get("addresses", ())]
        rows = tuple(row for row, name in enumerate(names) if within(name, addresses))
        if rows or not addresses:
            step, until = int(finding["step"]), finding.get("until")
            since = int(finding.get("since", step))
            when = f"{'at' if since == step else 'since'} step {since:,}"
            end = "" if until is None else f" until step {until:,}"
            label = f"{finding.get('symptom', 'finding')} {when}{end}"
            badges.append(Badge(f"{len(badges) + 1}  {label}", since, step, rows))
    return badges


def nonfinite_signs(theme: Theme) -> tuple[tuple[int, str, str, str], ...]:
    """Returns the flag, the marker, the colour and the label of each kind."""
    colours, labels = (theme.nan, theme.posinf, theme.neginf), ("NaN", "+∞", "−∞")
    return tuple(zip(STATES, "x+_", colours, labels, strict=True))


def ramp(theme: Theme) -> Colormap:
    """Returns the colours of a heat map, those of the Gradients tab."""
    colours = palette.blend(theme.ramp, np.linspace(0, 1, 256), GAMMA)
    return LinearSegmentedColormap.from_list("gradwatch", colours.tolist(), N=256)


@contextmanager
def run_figure(
    run: Run, words: Sequence[str], badges: Sequence[Badge], height: float, theme: Theme
) -> Iterator[tuple[Figure, Axes]]:
    """Yields a figure, and its axes to draw into; then adds what is around them.

    All that is drawn with a label has an entry in the legend.

    Args:
        run: The run.
        words: The title, and the line below it.
        badges: The findings to mark, of which the first ones are.
        height: The height of the figure in inches.
        theme: The colours.
    """
    with new_figure(WIDTH, height, theme) as figure:
        ax = figure.add_subplot()
        yield figure, ax
        _draw_badges(ax, badges[:MOST_BADGES], theme)
        title, below = map(printable, words)
        short = short_name(run)
        title = middle(title[0].upper() + title[1:], _TITLE - 3 - len(short))
        style: dict[str, Any] = {"fontweight": "bold", "pad": 34, "parse_math": False}
        ax.set_title(f"{title} · {short}", loc="left", **style)
        note(ax, below, (0, 1), (0, 23), color=theme.muted, fontsize=8.5)
        # The signs are explained first, then the badges.
        for badge in badges[:MOST_BADGES]:
            explain(ax, badge.label)
        if len(badges) > MOST_BADGES:
            explain(ax, f"and {len(badges) - MOST_BADGES} more")
        handles, _ = ax.get_legend_handles_labels()
        if handles:
            columns = min(len(handles), 4 if badges else 6)
            where: dict[str, Any] = {"loc": "outside lower center", "ncols": columns}
            figure.legend(**where, handletextpad=0.6)


def short_name(run: Run) -> str:
    """Returns the last two parts of the directory: the rest is of the machine."""
    short = "/".join(run.directory.parts[-2:]) or str(run.directory)
    return middle(printable(short), _TITLE // 2)


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
    for number, badge in enumerate(badges, 1):
        step = float(badge.step)
        while any(abs(step - other) < apart for other in taken):
            step += apart / 4
        taken.append(step)
        note(ax, str(number), (step, 1), (0, 9), ("data", "axes fraction"), **style)


def explain(ax: Axes, text: str, colour: str | None = None, **style: Any) -> None:
    """Adds an entry to the legend: a text, and the patch of a colour before it."""
    if colour is None:
        ax.plot([], [], linestyle="none", label=text)
    else:
        frame = {"edgecolor": palette.FAINT, "linewidth": 0.5, **style}
        ax.fill_between([], [], facecolor=colour, label=text, **frame)
