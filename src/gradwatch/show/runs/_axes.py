"""What all pictures of runs share: title, steps, names of lines, findings, legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .. import palette
from .._fold import fold
from .._format import printable
from .._marks import Mark as Place
from .._marks import Stretch, blocks_of, spaced
from ..palette import Theme
from ._marks import Mark

WIDTH = 9.5  # inches
MOST_NAMED = 60
GAMMA = 2.2  # equal parts of a ramp look equal in linear light


def ramp(theme: Theme) -> Colormap:
    """Returns the colours of a heat map, those of the Gradients tab."""
    linear = [
        [(int(stop[at : at + 2], 16) / 255) ** GAMMA for at in (1, 3, 5)]
        for stop in theme.ramp
    ]
    parts, colours = len(linear) - 1, []
    for shade in range(256):
        low = min(shade * parts // 255, parts - 1)
        share = shade * parts / 255 - low
        pair = zip(linear[low], linear[low + 1], strict=True)
        colours.append([(a + (b - a) * share) ** (1 / GAMMA) for a, b in pair])
    return LinearSegmentedColormap.from_list("gradwatch", colours, N=256)


def head(ax: Axes, title: str, below: str, theme: Theme) -> None:
    """Writes the title, and in small letters what is drawn."""
    ax.set_title(
        printable(title), loc="left", fontweight="bold", pad=34, parse_math=False
    )
    ax.annotate(
        printable(below),
        (0, 1),
        (0, 23),
        xycoords="axes fraction",
        textcoords="offset points",
        color=theme.muted,
        fontsize=8.5,
        parse_math=False,
    )


def steps_axis(ax: Axes, first: float, last: float) -> None:
    """Sets the axis of steps, whole numbers from the first to the last."""
    ax.set_xlim(first, last)
    ax.set_xlabel("step")
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))


def names_axis(ax: Axes, names: Sequence[str]) -> None:
    """Names each line, or blocks of lines where there are too many."""
    names = [printable(name) for name in names]
    ax.tick_params(axis="y", length=0)
    if len(names) <= MOST_NAMED:
        shown = fold(names, 40)
        size = 8.5 if len(names) <= 40 else 7
        ticks, labels = list(range(len(names))), [shown[name] for name in names]
    else:
        places = [
            Place(place, name, "weight", "value", None, None, False)
            for place, name in enumerate(names)
        ]
        blocks = spaced(blocks_of(places), len(names) / 34)
        if not blocks:  # more blocks than there is room for: some of the lines
            every = -(-len(names) // 30)
            blocks = [Stretch(p.name, p.place, p.place) for p in places[::every]]
        short = fold([block.label for block in blocks], 32)
        size = 8
        ticks = [int(block.first + block.last) // 2 for block in blocks]
        labels = [short[block.label] for block in blocks]
    ax.set_yticks(ticks, labels, parse_math=False, fontsize=size)


def rows_height(count: int) -> float:
    """Returns the height of a figure with so many lines, in inches."""
    if count > MOST_NAMED:
        return 7.6
    return 1.9 + max(count, 4) * (0.24 if count <= 30 else 0.17)


def badge(ax: Axes, step: float, number: int, theme: Theme) -> None:
    """Puts the number of a finding above the axes, with a mark down to them."""
    ax.annotate(
        str(number),
        (step, 1),
        (0, 9),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=7,
        fontweight="bold",
        color=theme.paper,
        bbox={"boxstyle": "circle,pad=0.22", "fc": theme.ink, "ec": "none"},
        arrowprops={
            "arrowstyle": "-",
            "color": theme.ink,
            "lw": 1.1,
            "shrinkA": 0,
            "shrinkB": 0,
        },
        annotation_clip=False,
        zorder=9,
    )


def badges(ax: Axes, marks: Sequence[Mark], theme: Theme) -> None:
    """Puts the findings above the axes; those too near each other share a place."""
    low, high = ax.get_xlim()
    apart = (high - low) / 40
    taken: list[float] = []
    for mark in marks:
        place = float(mark.step)
        while any(abs(place - other) < apart for other in taken):
            place += apart / 4
        taken.append(place)
        badge(ax, place, mark.number, theme)


def legend(
    figure: Figure, handles: Sequence[Any], marks: Sequence[Mark], left_out: int
) -> None:
    """Says below what signs mean, and in a second line what the numbers do."""
    entries = list(handles)
    texts = [f"{mark.number}  {mark.words}" for mark in marks]
    if left_out:
        texts.append(f"and {left_out} more")
    entries += [Line2D([], [], linestyle="none", label=text) for text in texts]
    if not entries:
        return
    columns = min(len(entries), 4 if texts else 6)
    figure.legend(
        handles=entries, loc="outside lower center", ncols=columns, handletextpad=0.6
    )


def patch(colour: str, label: str) -> Patch:
    """Returns a legend entry for a colour of a heat map."""
    return Patch(facecolor=colour, edgecolor=palette.FAINT, linewidth=0.5, label=label)
