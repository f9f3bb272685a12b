"""Draws the checks of attributions: curves of deletion, similarity layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .._figure import PERCENT, Style, new_figure
from .._plot import theme_named
from ..palette import Theme, ThemeName

Curves = Sequence[tuple[str, np.ndarray, np.ndarray]]
Lines = Sequence[tuple[str, Mapping[str, np.ndarray | None]]]

# A line never differs from another by its colour alone.
_MARKS = ("o", "s", "^", "D")
_MEASURES = {
    "signed": "rank correlation",
    "absolute": "rank correlation of the sizes",
    "ssim": "structural similarity of the sizes",
}


def plot_curves(
    curves: Curves, random: np.ndarray, *, what: str, target: str, theme: ThemeName
) -> Figure:
    """Returns a figure of deletion or insertion curves, with chance behind them.

    Example:
    >>> import numpy as np
    >>> share = np.linspace(0, 1, 3)
    >>> curves = [("saliency", share, np.array([[2.0, 1.0, 0.0]]))]
    >>> words = {"what": "deletion", "target": "class 3", "theme": "light"}
    >>> figure = plot_curves(curves, np.ones((2, 1, 3)), **words)
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['share of the input removed']

    Args:
        curves: Method, shares [points] and scores [examples, points] of each.
        random: The scores of random orders, at the shares of the first of them:
            [orders, examples, points].
        what: `"deletion"` or `"insertion"`.
        target: The target that was explained.
        theme: `"light"` or `"dark"`.

    Raises:
        GradwatchError: When there is no such theme.
    """
    colours = theme_named(theme)
    with new_figure(6.4, 4.2, colours) as figure:
        ax = figure.add_subplot()
        muted = colours.muted
        _, share, first = curves[0]
        if len(random):
            every = random.mean(axis=1)  # over the examples, as the lines are
            low, high = every.min(axis=0), every.max(axis=0)
            ax.fill_between(share, low, high, color=muted, alpha=0.25, linewidth=0)
            chance = every.mean(axis=0)
            name = f"random order: area {_area(share, chance):.3g}"
            ax.plot(share, chance, "--", color=muted, linewidth=1.4, label=name)
        for number, (method, at, scores) in enumerate(curves):
            mean = scores.mean(axis=0)
            style = _style(number, colours)
            if len(curves) == 1 and 1 < len(scores) <= 64:
                ax.plot(at, scores.T, color=style["color"], alpha=0.18, linewidth=0.8)
            name = f"{method}: area {_area(at, mean):.3g}"
            ax.plot(at, mean, **style, linewidth=2.2, markersize=4.5, label=name)
        deleted = what == "deletion"
        verb, better = ("removed", "lower") if deleted else ("put in", "higher")
        ax.set(xlim=(0, 1), xlabel=f"share of the input {verb}", ylabel=target)
        ax.xaxis.set_major_formatter(PERCENT)
        ax.grid()
        averaged = f"mean of {len(first)} examples" if len(first) > 1 else "one example"
        title = f"{what}: the {better}, the better ({averaged})"
        ax.set_title(title, loc="left", fontsize=10)
        ax.legend(loc="best", frameon=False, handlelength=2.2, handletextpad=0.6)
    return figure


def plot_randomisation(
    lines: Lines, layers: Sequence[str], *, order: str, target: str, theme: ThemeName
) -> Figure:
    """Returns a figure of similarities while layers are drawn at random.

    Example:
    >>> import numpy as np
    >>> lines = [("saliency", {"signed": np.zeros((2, 4)), "ssim": None})]
    >>> words = {"order": "cascading", "target": "class 3", "theme": "light"}
    >>> figure = plot_randomisation(lines, ["head", "conv"], **words)
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['trained', 'head', 'conv']

    Args:
        lines: Each method, and by measure [layers, examples]; None where not
            measured.
        layers: The addresses, in the order in which they are drawn.
        order: `"cascading"` or `"independent"`.
        target: The target that was explained.
        theme: `"light"` or `"dark"`.

    Raises:
        GradwatchError: When there is no such theme.
    """
    colours = theme_named(theme)
    known = {m for _, own in lines for m, values in own.items() if values is not None}
    measures = [measure for measure in _MEASURES if measure in known]
    width = max(3.4, 0.42 * len(layers) + 1.6)
    with new_figure(min(width * len(measures), 16), 4.0, colours) as figure:
        all_axes = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
        positions = np.arange(len(layers) + 1)
        for ax, measure in zip(all_axes, measures, strict=True):
            drawn = [(n, m, own.get(measure)) for n, (m, own) in enumerate(lines)]
            for number, method, values in drawn:
                if values is None:
                    continue
                # A constant explanation has no rank correlation, hence NaN.
                whole: Any = np.ma.masked_invalid([np.ones(values.shape[1]), *values])
                style = _style(number, colours)
                if order == "independent":
                    style["linestyle"] = "none"
                elif values.shape[1] > 1:
                    faint = {"color": style["color"], "alpha": 0.1, "linewidth": 0}
                    ends = whole.min(axis=1), whole.max(axis=1)
                    low, high = (end.filled(np.nan) for end in ends)
                    ax.fill_between(positions, low, high, **faint)
                style |= {"label": method, "linewidth": 2, "markersize": 5}
                ax.plot(positions, whole.mean(axis=1).filled(np.nan), **style)
            ax.axhline(0, color=colours.muted, linewidth=0.8, alpha=0.6)
            ax.set_xticks(positions, ["trained", *layers], rotation=45, ha="right")
            ax.set_ylim(-1.06, 1.06)
            ax.set_title(_MEASURES[measure], loc="left", fontsize=9)
            ax.grid()
        entries = all_axes[0].get_legend_handles_labels()
        where: Style = {"loc": "outside lower center", "ncols": 4}
        figure.legend(*entries, **where, handletextpad=0.6)
        how = "each alone" if order == "independent" else "from the output down"
        title = f"{target}: likeness to the trained explanation, layers random {how}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


def _style(number: int, theme: Theme) -> dict[str, Any]:
    return {
        "color": theme.hues[number % len(theme.hues)],
        "marker": _MARKS[number % len(_MARKS)],
        "markeredgecolor": theme.paper,
        "markeredgewidth": 0.6,
    }


def _area(share: np.ndarray, line: np.ndarray) -> float:
    return float(np.sum((line[1:] + line[:-1]) / 2 * np.diff(share)))
