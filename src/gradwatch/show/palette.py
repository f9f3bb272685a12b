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
