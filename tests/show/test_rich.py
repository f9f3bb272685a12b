from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from gradwatch.show import table_rich
from gradwatch.show.palette import ALARM, THEMES, tone_colour
from gradwatch.summarise import Row, summarise_array


def styles_of(rows, word):
    """Returns the styles in which a coloured console prints the word."""
    console = Console(file=StringIO(), width=120, color_system="truecolor")
    segments = console.render(table_rich(rows, title="t"))
    return {str(s.style) for s in segments if word in s.text and s.style}


def test_what_is_not_finite_is_bold_red():
    """The count and the address of a gradient with NaN stand out."""
    rows = [
        summarise_array("sick", "weight", np.array([1, np.nan])),
        summarise_array("fine", "weight", np.ones(2)),
    ]
    assert styles_of(rows, "1 NaN") == {"bold red"}
    assert styles_of(rows, "sick") == {"bold red"}
    assert "bold red" not in styles_of(rows, "fine")


@pytest.mark.parametrize(("ones", "warned"), [(1, True), (2, False)])
def test_nine_tenths_zeros_are_yellow(ones, warned):
    """90 % zeros is a warning, a little less is not."""
    array = np.zeros(10)
    array[:ones] = 1
    text = f"{100 - 10 * ones}.0"
    assert ("yellow" in styles_of([summarise_array("a", "weight", array)], text)) == (
        warned
    )


def test_missing_rows_are_dim():
    """Name, shape and dashes of a missing gradient step back."""
    row = Row.absent("gone", "weight", (7, 5), "float32", "frozen")
    assert styles_of([row], "—") == {"dim"}
    assert styles_of([row], "7×5") == {"dim"}
    assert styles_of([row], "gone") == {"dim"}


@pytest.mark.parametrize("width", [120, 50, 20])
def test_the_table_takes_the_width_of_its_console(network, width):
    """The same object fits a wide and a narrow console."""
    file = StringIO()
    console = Console(file=file, width=width, color_system=None)
    table = table_rich(network, title="t")
    console.print(table)
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert ("not shown" in file.getvalue()) == (width < 100)


def luminance(colour):
    """The relative luminance of WCAG 2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    ]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("tone", ["dim", "warn", "alarm"])
def test_every_tone_can_be_read_on_light_and_dark(tone):
    """Each colour has a contrast of 4.5 at least with its page (WCAG 2, AA)."""
    assert contrast(tone_colour(tone, THEMES["light"]), "#FFFFFF") >= 4.5
    assert contrast(tone_colour(tone, THEMES["dark"]), "#1E1E1E") >= 4.5


@pytest.mark.parametrize("colour", [THEMES["light"].ink, THEMES["light"].muted, ALARM])
def test_words_in_figures_can_be_read(colour):
    """Words on a white figure have a contrast of 4.5 at least."""
    assert contrast(colour, "#FFFFFF") >= 4.5
