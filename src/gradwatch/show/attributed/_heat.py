"""Heat: the strength of a number, and its colour."""

from __future__ import annotations

import numpy as np

from ..palette import Theme, blend, rgb
from ._panel import Panel

PERCENTILE = 99
"""Percentile of |value| at which the scale ends; larger ones get its last colour."""


STRENGTH = 0.7
"""The power of a share of the limit that is its opacity."""


def limit_of(values: np.ndarray) -> float:
    """Returns the end of the scale, such that a single spike does not hide the rest.

    Example:
    >>> limit_of(np.array([0.0, -2.0, np.nan, 1.0]))
    2.0
    >>> limit_of(np.append(np.ones(999), 1000.0))
    1.0
    """
    sizes = np.abs(values[np.isfinite(values)].astype("float64"))
    if sizes.size == 0:
        return 0.0
    # A number that is there, never one between two: of a few it is the largest.
    limit = float(np.percentile(sizes, PERCENTILE, method="inverted_cdf"))
    return limit or float(sizes.max())  # a few pixels of a large picture


def heat(values: np.ndarray, limit: float, *, signed: bool, theme: Theme) -> np.ndarray:
    """Returns the colour of each number, as RGBA between 0 and 1.

    Zero is clear. With a sign, there is a colour for each, and both grow alike; without
    one, colours run from faint to strong. What is not finite has the ink of the theme,
    which no heat has.
    """
    finite = np.isfinite(values)
    share = np.clip(np.where(finite, values, 0.0) / (limit or 1.0), -1, 1)
    size = np.abs(share)[..., None]
    if signed:
        positive, negative = rgb(theme.positive), rgb(theme.negative)
        colour = np.where(share[..., None] < 0, negative, positive)
    else:
        colour = blend(theme.rising, size[..., 0])
    # Half the limit is to be seen clearly, and noise near zero is not.
    alpha = size**STRENGTH * np.clip(size / 0.04, 0, 1)
    colours = np.concatenate([colour, alpha], axis=-1)
    colours[~finite] = (*rgb(theme.ink), 1.0)
    return colours


def over(below: np.ndarray, colours: np.ndarray) -> np.ndarray:
    """Lays RGBA over RGB."""
    alpha = colours[..., 3:]
    return np.asarray(colours[..., :3] * alpha + below * (1 - alpha))


def washed(picture: np.ndarray, theme: Theme) -> np.ndarray:
    """Returns a picture in pale greys, on which heat and ink can be told apart."""
    luma = np.array([0.299, 0.587, 0.114])  # of Rec. 601
    grey = picture @ luma if picture.ndim == 3 else picture
    low, high = theme.washed
    return np.repeat((low + (high - low) * grey)[..., None], 3, axis=-1)


def heated(
    picture: np.ndarray, values: np.ndarray, panel: Panel, theme: Theme
) -> np.ndarray:
    """Returns a picture in pale greys with the heat of an example over it."""
    colours = heat(values, limit_of(values), signed=panel.signed, theme=theme)
    return over(washed(picture, theme), colours)


def scale(theme: Theme, *, signed: bool, steps: int = 256) -> np.ndarray:
    """Returns the colours of a colour bar, from its lowest number to its largest."""
    values = np.linspace(-1 if signed else 0, 1, steps)
    paper = np.broadcast_to(rgb(theme.paper), (steps, 3))
    return over(paper, heat(values, 1.0, signed=signed, theme=theme))
