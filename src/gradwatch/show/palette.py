"""The colours of everything gradwatch draws, in one place.

The hues are those of Okabe and Ito (2008, "Color Universal Design"), which people with
any of the common colour deficiencies can tell apart. A mark never differs from another
by colour alone: it has its own shape or its own label too.

`frontend/src/palette.json`, the colours of the tab and the report, is generated from
here by `make frontend`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"

INK = "#1F2328"  # text on a white page
MUTED = "#5B6570"  # second-rank text, and what was not measured
# Translucent, so that they suit the user's own axes on any background.
FAINT = "#80889050"  # grid lines
BAND = "#80889018"  # every other block of a long axis
ALARM = "#C1121F"  # NaN and ∞, and nothing else

ThemeName = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of figures and pages; the defaults are for a light background.

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

    paper: str = "#FFFFFF"
    ink: str = INK
    muted: str = MUTED
    alarm: str = ALARM
    warn: str = "#8A5A00"
    good: str = "#00694D"
    hues: tuple[str, ...] = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
    ramp: tuple[str, ...] = ("#F2F6E4", "#A9DCC6", "#43AAC6", "#0072B2", "#0A2A5C")
    fork: tuple[str, ...] = ("#084A80", "#5AA6D6", "#F4F4F2", "#F0A43C", "#9A4A00")
    nan: str = ALARM
    posinf: str = ORANGE
    neginf: str = PURPLE
    zero: str = "#D5CFC8"
    unmeasured: str = "#80889030"
    sick: str = VERMILION
    positive: str = VERMILION
    negative: str = BLUE
    rising: tuple[str, str, str] = ("#F7D08A", "#DD6B0C", "#8A2A00")
    washed: tuple[float, float] = (0.66, 1.0)
    page: Mapping[str, str] = field(kw_only=True)

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


# name: on a light page, on a dark page
_PAGES = {
    "page": ("#F4F5F7", "#101317"),
    "line": ("#DFE3E8", "#2C323A"),
    "soft": ("#EEF1F4", "#21262D"),
    "accent-ink": ("#FFFFFF", "#08151E"),
    "alarm-soft": ("#FDECED", "#3A1D20"),
    "good-soft": ("#E3F4EE", "#12332A"),
    "tip": (INK, "#E6EAEE"),
    "tip-ink": ("#F2F4F6", "#14181D"),
    "grid": ("#80889038", "#80889045"),
    "band": ("#80889014", BAND),
    "hatch": ("#80889055", "#80889066"),
    "shadow": ("0 1px 2px #1F232812", "none"),
}

THEMES: dict[str, Theme] = {
    "light": Theme(page={name: light for name, (light, _) in _PAGES.items()}),
    "dark": Theme(
        paper="#181B20",
        ink="#E6EAEE",
        muted="#9AA4AF",
        alarm="#FF7B72",
        warn="#F2B84B",
        good="#4FD1A5",
        # The darkest hue of the light page is near this page.
        hues=(SKY, ORANGE, "#2BC48F", PURPLE, "#4C9BE0", "#FF9B57"),
        ramp=("#12243F", "#0072B2", "#43AAC6", "#A9DCC6", "#FBFBE3"),
        fork=("#8FD0F5", "#1F78B4", "#22262B", "#C77B12", "#FFC872"),
        nan="#FF4B4B",
        zero="#4C4741",
        sick="#FF9B57",
        positive=ORANGE,
        negative=SKY,
        rising=("#7A3A08", "#E88A1A", "#FFE3A0"),
        washed=(0.06, 0.36),
        page={name: dark for name, (_, dark) in _PAGES.items()},
    ),
}

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
    colours = {"dim": theme.muted, "warn": theme.warn, "alarm": theme.alarm}
    return colours.get(tone)


def exported() -> str:
    """Returns the themes as JSON, from which the frontend is built."""
    themes = {n: {**asdict(theme), "css": theme.css} for n, theme in THEMES.items()}
    return json.dumps(themes, indent=2) + "\n"


def rgb(colour: str) -> NDArray[np.float64]:
    """Returns the red, green and blue of a colour, between 0 and 1.

    Example:
    >>> rgb("#FF8000").round(2).tolist()
    [1.0, 0.5, 0.0]
    """
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
