"""The figures of checks of attributions. Only `_draw_checks` imports matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._plot import needs_matplotlib, theme_named
from .palette import ThemeName

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_curves(
    curves: Sequence[tuple[str, np.ndarray, np.ndarray]],
    random: np.ndarray,
    *,
    what: str,
    target: str,
    theme: ThemeName,
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
        ImportError: If matplotlib is not installed.
    """
    colours = theme_named(theme)
    with needs_matplotlib():
        from ._draw_checks import draw_curves
    return draw_curves(curves, random, what, target, colours)


def plot_randomisation(
    lines: Sequence[tuple[str, Mapping[str, np.ndarray | None]]],
    layers: Sequence[str],
    *,
    order: str,
    target: str,
    theme: ThemeName,
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
        ImportError: If matplotlib is not installed.
    """
    colours = theme_named(theme)
    with needs_matplotlib():
        from ._draw_checks import draw_randomisation
    return draw_randomisation(lines, layers, order, target, colours)
