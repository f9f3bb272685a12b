"""The colours of everything gradwatch draws, in one place.

The hues are those of Okabe and Ito (2008, "Color Universal Design"), which people
with any of the common colour deficiencies can tell apart. A mark never differs from
another by colour alone: it has its own shape or its own words too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"

INK = "#1F2328"  # text on a white page
MUTED = "#6E7781"  # second-rank text, and what was not measured
# See-through, so that they suit the user's own axes, whatever their background.
FAINT = "#80889050"  # grid lines
BAND = "#80889018"  # every other block of a long axis
ALARM = "#C1121F"  # NaN and ∞, and nothing else

# A heat map from small to large. One end is near the page: what is small recedes.
RAMP_LIGHT = ("#F2F6E4", "#A9DCC6", "#43AAC6", "#0072B2", "#0A2A5C")
RAMP_DARK = ("#12243F", "#0072B2", "#43AAC6", "#A9DCC6", "#FBFBE3")

ThemeName = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Theme:
    """What a figure is drawn with on a light or a dark page.

    Attributes:
        paper: The page, behind everything.
        ink: Words. In heat upon a picture, numbers that are not finite: no heat is as
            dark, or as light.
        muted: Words of the second rank.
        alarm: Words about NaN and ∞.
        hues: For lines and markers, in the order in which they are taken.
        ramp: A heat map, from small to large.
        nan: NaN, and nothing else.
        posinf: Plus infinity.
        neginf: Minus infinity.
        zero: Exactly zero, where a scale is of logarithms.
        unmeasured: What was not measured.
        sick: Beyond a limit: what no healthy training has.
        positive: Heat above zero, where heat has a sign.
        negative: Heat below zero.
        rising: Heat from zero up, where it has none: from faint to strong.
        washed: What black and white become in a picture that heat is laid upon.
    """

    paper: str
    ink: str
    muted: str
    alarm: str
    hues: tuple[str, ...]
    ramp: tuple[str, ...]
    nan: str
    posinf: str
    neginf: str
    zero: str
    unmeasured: str
    sick: str
    positive: str
    negative: str
    rising: tuple[str, str, str]
    washed: tuple[float, float]


THEMES: dict[str, Theme] = {
    "light": Theme(
        paper="#FFFFFF",
        ink=INK,
        muted=MUTED,
        alarm=ALARM,
        hues=(BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION),
        ramp=RAMP_LIGHT,
        nan=ALARM,
        posinf=ORANGE,
        neginf=PURPLE,
        zero="#D5CFC8",
        unmeasured="#80889030",
        sick=VERMILION,
        positive=VERMILION,
        negative=BLUE,
        rising=("#F7D08A", "#DD6B0C", "#8A2A00"),
        washed=(0.66, 1.0),
    ),
    "dark": Theme(
        paper="#181B20",
        ink="#E6EAEE",
        muted="#9AA4AF",
        alarm="#FF7B72",
        # The darkest hue of the light page is near this page.
        hues=(SKY, ORANGE, "#2BC48F", PURPLE, "#4C9BE0", "#FF9B57"),
        ramp=RAMP_DARK,
        nan="#FF4B4B",
        posinf=ORANGE,
        neginf=PURPLE,
        zero="#4C4741",
        unmeasured="#80889030",
        sick="#FF9B57",
        positive=ORANGE,
        negative=SKY,
        rising=("#7A3A08", "#E88A1A", "#FFE3A0"),
        washed=(0.06, 0.36),
    ),
}

Tone = Literal["plain", "dim", "warn", "alarm", "heading"]


@dataclass(frozen=True, slots=True)
class Paint:
    """One tone of a table on each medium.

    Attributes:
        terminal: The rich style.
        light: The colour on a white page.
        dark: The colour on a black page.
    """

    terminal: str
    light: str
    dark: str


TONES: dict[Tone, Paint] = {
    "plain": Paint("none", "inherit", "inherit"),
    "dim": Paint("dim", MUTED, "#9AA4AF"),
    "warn": Paint("yellow", "#8A5A00", "#F2B84B"),
    "alarm": Paint("bold red", ALARM, "#FF7B72"),
    "heading": Paint("bold", "inherit", "inherit"),
}
