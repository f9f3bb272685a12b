"""Colours: what each number is, and that every reader can tell them apart."""

import io
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.image import imread

from gradwatch.show._format import printable
from gradwatch.show.attributed._heat import heat, limit_of, over, scale, washed
from gradwatch.show.attributed._panel import broken, silent
from gradwatch.show.attributed._png import png
from gradwatch.show.attributed._ranked import ranked
from gradwatch.show.attributed._tokens import laid_out
from gradwatch.show.palette import THEMES, rgb

VALUES = np.linspace(-1, 1, 41)
BOTH = pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)


def by_hand(values):
    """The smallest size that at least 99 of 100 numbers do not exceed."""
    sizes = sorted(abs(v) for v in values if np.isfinite(v))
    for size in sizes:
        if sum(other <= size for other in sizes) >= 0.99 * len(sizes):
            return size
    return 0.0


def luminance(colour):
    """Relative luminance of sRGB, as WCAG 2.2 defines it."""
    parts = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_the_scale_ends_at_the_99th_percentile():
    """Counted one by one; a spike is beyond it, and NaN is not counted."""
    random = np.random.default_rng(0)
    values = random.normal(size=1001)
    values[3], values[4] = 1e6, np.nan
    assert limit_of(values) == by_hand(values)
    assert limit_of(values) < 10
    sparse = np.zeros(1000)
    sparse[7] = -3.0
    assert limit_of(sparse) == 3.0
    assert limit_of(np.array([np.nan])) == limit_of(np.zeros(4)) == 0.0


@BOTH
def test_heat_is_symmetric_about_zero(theme):
    """Zero is clear, equal sizes are equally strong, and the signs have two hues."""
    colours = heat(VALUES, 1.0, signed=True, theme=theme)
    assert colours[20, 3] == 0
    assert colours[:, 3] == pytest.approx(colours[::-1, 3])
    assert (np.diff(colours[20:, 3]) > 0).all()
    assert (colours[21:, :3] == rgb(theme.positive)).all()
    assert (colours[:20, :3] == rgb(theme.negative)).all()
    assert (heat(np.array([7.0]), 1.0, signed=True, theme=theme) == colours[-1]).all()


@BOTH
def test_heat_without_a_sign_grows_away_from_the_page(theme):
    """Its lightness changes in one direction only: so it reads without any hue."""
    light = [luminance(c) for c in scale(theme, signed=False, steps=50)]
    steps = np.diff(light)
    assert (steps < 1e-3).all() if light[0] > 0.5 else (steps > -1e-3).all()
    assert abs(light[-1] - light[0]) > 0.5


@BOTH
def test_both_signs_differ_for_people_who_see_no_red_or_no_green(theme):
    """Viénot, Brettel and Mollon (1999): dichromats have two dimensions left."""
    # Their eq. for deuteranopes in linear RGB: what is left of red and green is one.
    merge = np.array(
        [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1]]
    )
    seen = [
        merge @ np.array([luminance((c, c, c)) for c in colour])
        for colour in (rgb(theme.positive), rgb(theme.negative))
    ]
    assert np.abs(seen[0] - seen[1]).max() > 0.2


@BOTH
def test_what_is_not_finite_has_a_colour_that_no_heat_has(theme):
    """Ink, opaque: farther from every heat on every grey than can be overlooked."""
    result = heat(np.array([np.nan, np.inf, -np.inf]), 1.0, signed=True, theme=theme)
    assert (result == [*rgb(theme.ink), 1.0]).all()
    for signed in (True, False):
        for grey in (0.0, 0.5, 1.0):
            ground = washed(np.full((1, 41), grey), theme)
            colours = heat(
                VALUES if signed else np.abs(VALUES), 1.0, signed=signed, theme=theme
            )
            apart = np.abs(over(ground, colours[None]) - rgb(theme.ink)).max(axis=-1)
            assert apart.min() > 0.2


def test_washing_knows_pictures_of_three_columns_from_colours():
    """A grey picture that is three pixels wide is no RGB."""
    theme = THEMES["light"]
    assert washed(np.zeros((5, 3)), theme).shape == (5, 3, 3)
    assert washed(np.zeros((5, 3, 3)), theme).shape == (5, 3, 3)
    assert washed(np.ones((1, 1)), theme).max() == theme.washed[1]


@pytest.mark.parametrize("channels", [3, 4])
def test_a_png_is_read_back_as_it_was_written(channels):
    """By matplotlib's own reader, pixel by pixel."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 7, channels)) / 255
    result = imread(io.BytesIO(png(pixels)), format="png")
    assert np.abs(result - pixels).max() < 1e-6


def test_bars_keep_the_total_and_the_order():
    """Largest first, what is not finite before all, the rest added up."""
    random = np.random.default_rng(1)
    values = random.normal(size=30)
    names = [f"f{i}" for i in range(30)]
    bars = ranked(values, values * 2, names, 5)
    assert sum(bar.value for bar in bars) == pytest.approx(values.sum())
    expected = sorted(range(30), key=lambda i: -abs(values[i]))[:5]
    assert [bar.name for bar in bars[:5]] == [f"f{i}" for i in expected]
    assert bars[5].name == "25 others"
    assert bars[5].rest
    assert bars[0].feature == f"{2 * values[expected[0]]:.4g}"
    values[7] = np.nan
    assert ranked(values, None, names, 5)[0].name == "f7"
    assert len(ranked(values[:6], None, names, 5)) == 6  # no "1 others"


def test_words_are_set_into_lines():
    """No line is longer than it may be, the order stays, and nothing gets lost."""
    random = np.random.default_rng(0)
    words = ["x" * n for n in random.integers(0, 9, size=200)]
    result = laid_out(words, 40)
    assert [word.index for word in result] == [i for i, w in enumerate(words) if w]
    for one, two in pairwise(result):
        assert one.column + one.width <= 40
        if one.line == two.line:
            assert two.column == one.column + one.width + 1
        else:
            assert (two.line, two.column) == (one.line + 1, 0)
            assert one.column + one.width + 1 + two.width > 40
    assert laid_out(["y" * 500], 40)[0].width <= 40
    assert laid_out(["中文"], 40)[0].width == 4


def test_words_about_values():
    """What is broken, what is silent, and what cannot be seen."""
    assert broken(np.zeros(3)) == ""
    assert broken(np.array([np.nan])) == "1 of 1 value is not finite: 1 NaN"
    assert silent(np.zeros((2, 3))) == "all 6 values are zero"
    assert silent(np.array([0.0, 1e-30])) == ""
    assert silent(np.array([np.nan, 0.0])) == ""
    assert printable("a\nb\u202e") == "a\\nb\\u202e"
