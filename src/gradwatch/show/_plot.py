"""The flow plot of gradients. Only the files that draw import matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gradwatch.summarise import Row

from .._errors import require
from ._marks import marks_of
from .palette import THEMES, Theme, ThemeName

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextmanager
def needs_matplotlib() -> Iterator[None]:
    """Raises an error that says how to install matplotlib where it is missing.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ImportError(
            "Plots need matplotlib. Received: no module of that name in this Python. "
            'Install it with `pip install "gradwatch[plot]"`.'
        ) from error


def theme_named(name: ThemeName) -> Theme:
    """Returns the theme of that name.

    Example:
    >>> theme_named("dark").paper
    '#181B20'

    Raises:
        GradwatchError: If there is none of that name.
    """
    rule = '`theme` must be "light" or "dark".'
    require(name in THEMES, rule, name, "Leave it out for a light page.")
    return THEMES[name]


def plot_flow(
    rows: Sequence[Row],
    *,
    title: str,
    ax: Axes | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """Returns a figure of the gradient along the depth of the model.

    Each gradient is a marker at the mean of |g| and a line up to the largest |g|, on
    a log scale, in the order of the rows (the input comes first). Means per element
    are compared, and not norms, because a norm grows with the number of elements: a
    wide layer would hide that its gradient vanishes. NaN and ∞, exact zeros and
    missing gradients have marks of their own at the edges.

    The figure is shown by a notebook that gets it as the last value of a cell. It is
    not known to `pyplot`, so nothing stays open: save it with `figure.savefig(path)`,
    or pass `ax=plt.gca()` to see it with `plt.show()`.

    Example:
    >>> import numpy as np
    >>> from gradwatch.summarise import summarise_array
    >>> rows = [summarise_array("dense/kernel", "weight", np.ones((3, 2)))]
    >>> figure = plot_flow(rows, title="gradient flow of 'demo'")
    >>> figure.axes[0].get_xscale()
    'log'

    Args:
        rows: The gradients, in depth order.
        title: The line above the plot.
        ax: The axes to draw into; their figure is returned, with size and style
            unchanged (default: a new figure, sized to the number of rows).
        theme: "light" or "dark": the page it is for.

    Raises:
        ValueError: If there are no rows.
        ImportError: If matplotlib is not installed.
    """
    rows = list(rows)
    if not rows:
        raise ValueError(
            "`rows` must hold at least one gradient to plot. Received: none. Select "
            "some weights, activations or inputs first."
        )
    colours = theme_named(theme)
    with needs_matplotlib():
        from ._figure import new_figure
        from ._flow import draw_flow
        from ._flow_axis import FlowAxis
    marks, kinds = marks_of(rows)
    if ax is None:
        with new_figure(*FlowAxis.size(marks, kinds), colours) as figure:
            own = figure.add_subplot()
            own.spines[["left", "bottom"]].set_visible(True)
            own.tick_params(length=3.5)
            axis = FlowAxis(own, marks, kinds, colours)
            handles = draw_flow(axis, title)
            columns = min(len(handles), 7)
            figure.legend(handles=handles, loc="outside lower center", ncols=columns)
        return figure
    owner = ax.get_figure(root=True)
    if owner is None:
        raise ValueError(
            "`ax` must belong to a figure. Received: axes that were removed from "
            "theirs. Pass axes of a figure, or none."
        )
    axis = FlowAxis(ax, marks, kinds, colours)
    ax.legend(handles=draw_flow(axis, title), fontsize="small")
    return owner
