"""The colours of everything gradwatch draws, in one place.

The hues are those of Okabe and Ito (2008, "Color Universal Design"), which people with
any of the common colour deficiencies can tell apart. A mark never differs from another
by colour alone: it has its own shape or its own label too.

`frontend/src/palette.json`, the colours of the tab and the report, is generated from
here by `make frontend`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .static import STATIC

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"

# Translucent, so that they suit the user's own axes on any background.
FAINT = "#80889050"  # grid lines
BAND = "#80889018"  # every other block of a long axis
ALARM = "#C1121F"  # NaN and ∞, and nothing else

ThemeName = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of figures and pages.

    Attributes:
        paper: The background of figures and cards.
        ink: Text. In heat upon a picture, numbers that are not finite: no heat is as
            dark, or as light.
        muted: Text of the second rank.
        alarm: Text about NaN and ∞.
        warn: Text about what is unusual.
        good: Text about what is healthy.
        hues: Lines and markers, in the order in which they are taken.
        ramp: A heat map, from small to large. One end is near the page: what is small
            recedes.
        fork: A difference: less, equal, more.
        nan: NaN, and nothing else.
        posinf: Plus infinity.
        neginf: Minus infinity.
        zero: Exactly zero, where a scale is logarithmic.
        unmeasured: Cells that were not measured.
        sick: Numbers beyond a limit, which no healthy training has.
        positive: Heat above zero, where heat has a sign.
        negative: Heat below zero.
        rising: Heat from zero up, where it has no sign: from faint to strong.
        washed: Black and white in a picture that heat is laid upon.
        page: Further colours of the tab and the report, by name.
    """

    paper: str
    ink: str
    muted: str
    alarm: str
    warn: str
    good: str
    hues: Sequence[str]
    ramp: Sequence[str]
    fork: Sequence[str]
    nan: str
    posinf: str
    neginf: str
    zero: str
    unmeasured: str
    sick: str
    positive: str
    negative: str
    rising: Sequence[str]
    washed: Sequence[float]
    page: Mapping[str, str]

    @property
    def css(self) -> str:
        """The custom properties of the tab's and the report's style sheets."""
        own = ("ink", "muted", "alarm", "warn", "good")
        variables = {
            "card": self.paper,
            **{name: getattr(self, name) for name in own},
            "accent": self.hues[0],
            "second": self.sick,
            "clip": self.posinf,
            **self.page,
        }
        return " ".join(f"--{name}: {value};" for name, value in variables.items())


_FILE = tomllib.loads((STATIC / "palette.toml").read_text(encoding="utf-8"))
THEMES = {name: Theme(**values) for name, values in _FILE.items()}

Tone = Literal["plain", "dim", "warn", "alarm", "heading"]

TONES: dict[Tone, str] = {
    "plain": "none",
    "dim": "dim",
    "warn": "yellow",
    "alarm": "bold red",
    "heading": "bold",
}
"""The rich style of each tone of a table; pages have `tone_colour`."""


def tone_colour(tone: Tone, theme: Theme) -> str | None:
    """Returns the colour of a tone on a page; `None` where it is inherited."""
    return {"dim": theme.muted, "warn": theme.warn, "alarm": theme.alarm}.get(tone)


def rgb(colour: str) -> NDArray[np.float64]:
    """Returns the red, green and blue of a colour, between 0 and 1.

    Example:
    >>> rgb("#FF8000").round(2).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def blend(
    colours: Sequence[str], at: NDArray[np.float64], gamma: float = 1.0
) -> NDArray[np.float64]:
    """Returns the colours at shares of the way from the first colour to the last.

    Example:
    >>> blend(["#000000", "#FFFFFF"], np.array([0.25])).tolist()
    [[0.25, 0.25, 0.25]]
    """
    ends = np.linspace(0, 1, len(colours))
    channels = np.array([rgb(colour) for colour in colours]).T ** gamma
    shades = [np.interp(at, ends, channel) for channel in channels]
    return np.stack(shades, axis=-1) ** (1 / gamma)
