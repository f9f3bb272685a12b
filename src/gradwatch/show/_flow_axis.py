"""The two axes of a flow plot: depth one way, |g| on a log scale the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Transform, blended_transform_factory, offset_copy

from . import palette
from ._figure import Style, inches, log_limits, log_ticks, note
from ._fold import fold
from ._marks import Block, Mark, blocks_of, spaced, without_common_start
from .palette import Theme

MOST_NAMED = 60  # beyond, a figure with every address is taller than a screen
INSIDE = 0.11  # inches from an end of the value axis to the marks that lie there
FLOAT16_VANISHES = 2.0**-25
VALUES = "|gradient| of one element: mean (marker) to largest (line)"
NO_VALUES = "no gradient has a finite element other than zero"
DEPTH = "depth: input → output"


class FlowAxis:
    """The two axes of one flow plot.

    With room for every address, depth runs down the page and the addresses are read
    like a table. With more gradients than that, depth runs to the right, and blocks
    of layers are named instead.

    Args:
        ax: The axes to draw into.
        marks: The marks to draw.
        kinds: Where each kind of gradient lies along the depth.
        theme: The colours.
    """

    def __init__(
        self, ax: Axes, marks: Sequence[Mark], kinds: Sequence[Block], theme: Theme
    ) -> None:
        self.ax = ax
        self.theme = theme
        self.marks = marks
        self.kinds = kinds
        width, height = inches(ax)
        self.named = len(marks) <= min(MOST_NAMED, height / 0.13)
        self.dots = min(1.0, (height if self.named else width) / (0.14 * len(marks)))
        self._labels = max(2, int(width / 0.22))
        self._last = marks[-1].position

    @staticmethod
    def size(marks: Sequence[Mark], kinds: Sequence[Block]) -> tuple[float, float]:
        """Returns the width and height of a figure of its own, in inches."""
        positions = len(marks) + 2 * len(kinds)
        if len(marks) <= MOST_NAMED:
            return 8.0, 1.6 + 0.21 * max(positions, 5)
        return min(18.0, max(11.0, 0.055 * positions)), 5.2

    def xy(self, along: Any, across: Any) -> Any:
        """Returns what is along the depth and across it, in the order x, y."""
        return (across, along) if self.named else (along, across)

    def edge(self, end: Literal[0, 1]) -> Transform:
        """Returns the transform for marks at an end of the value axis.

        In it, values are shares of that axis: 0 is the lowest end and 1 the highest,
        each a little inside, by the same distance on paper at any size.
        """
        transforms = self.xy(self.ax.transData, self.ax.transAxes)
        blend = blended_transform_factory(*transforms)
        shift = self.xy(0.0, INSIDE if end == 0 else -INSIDE)
        return offset_copy(blend, self.ax.get_figure(root=True), *shift)

    def finish(self, title: str) -> None:
        """Sets scales, limits, ticks, labels and the title."""
        ax, marks = self.ax, self.marks
        values = [v for m in marks for v in (m.typical, m.largest)]
        # Room for the marks at the edges.
        edge = any(m.state in ("zero", "missing", "empty") for m in marks)
        rooms = [0.13 if m else 0.06 for m in (edge, any(m.alarm for m in marks))]
        low, high = log_limits(values, 2, *rooms)
        # The limits below are final, and trying others on the way may overflow.
        ax.set_autoscale_on(False)
        value: Axis = ax.xaxis if self.named else ax.yaxis
        if self.named:
            ax.set(xscale="log", xlim=(low, high), xlabel=VALUES)
            ax.set_ylim(self._last + 0.8, -0.8 if len(self.kinds) == 1 else -1.7)
            self._name_each()
        else:
            ax.set(yscale="log", ylim=(low, high), ylabel=VALUES.replace(": ", ":\n"))
            ax.set(xlim=(-1, self._last + 1), xlabel=DEPTH)
            self._name_blocks()
        ax.tick_params("y" if self.named else "x", length=0)
        if any(mark.state == "value" for mark in marks):
            log_ticks(value, low, high)
        else:
            ax.minorticks_off()
            value.set_major_locator(NullLocator())  # any scale would be made up
            value.set_label_text(NO_VALUES)
        value.grid(True, color=palette.FAINT, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title(title, loc="left", fontweight="bold", pad=9, parse_math=False)
        self._show_float16()
        before, end, shift = (0.9, 0, (4, -3)) if self.named else (0, 1, (-3, -10))
        units = self.xy("data", "axes fraction")
        # Each kind is headed by its name.
        for kind in self.kinds if len(self.kinds) > 1 else ():
            at = self.xy(kind.first - before, end)
            note(ax, kind.label, at, shift, units, fontweight="bold")

    def _name_each(self) -> None:
        names = fold((mark.name for mark in self.marks), 46)
        positions = [mark.position for mark in self.marks]
        texts, size = [names[m.name] for m in self.marks], 8.5 if self.dots == 1 else 7
        self.ax.set_yticks(positions, texts, parse_math=False, fontsize=size)
        for mark, label in zip(self.marks, self.ax.get_yticklabels(), strict=True):
            if mark.alarm:
                label.set_color(self.theme.nan)
            elif mark.state in ("missing", "empty"):
                label.set_color(self.theme.muted)

    def _name_blocks(self) -> None:
        """Names blocks of layers, the largest first, as far as there is room."""
        labels: list[Block] = []
        for kind in self.kinds:
            own = [m for m in self.marks if kind.first <= m.position <= kind.last]
            inside = [(m.position, m.name) for m in own]
            blocks = blocks_of(inside)
            for block in blocks[1::2]:
                ends = block.first - 0.5, block.last + 0.5
                self.ax.axvspan(*ends, color=palette.BAND, lw=0, zorder=0)
            labels += blocks or [Block(name, at, at) for at, name in inside]
        shown = spaced(labels, (self._last + 2) / self._labels)
        start, names = without_common_start([label.label for label in shown])
        folded = fold(names, 26)
        middles = [(label.first + label.last) / 2 for label in shown]
        style: Style = {"rotation": 90, "parse_math": False, "fontsize": 8}
        self.ax.set_xticks(middles, [folded[name] for name in names], **style)
        if start:
            self.ax.set_xlabel(f"{start}…, by {DEPTH}", parse_math=False)

    def _show_float16(self) -> None:
        """Marks where float16 rounds to zero, when a typical value lies below."""
        if not any(mark.typical <= FLOAT16_VANISHES for mark in self.marks):
            return
        rule = self.ax.axvline if self.named else self.ax.axhline
        rule(FLOAT16_VANISHES, color=self.theme.muted, ls=":", lw=1)
        end, shift, side = (0, (3, 3), "left") if self.named else (1, (-2, 2), "right")
        at, units = self.xy(end, FLOAT16_VANISHES), self.xy("axes fraction", "data")
        style: Style = {"color": self.theme.muted, "fontsize": 7.5, "ha": side}
        note(self.ax, "zero in float16", at, shift, units, **style)
