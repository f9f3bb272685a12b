import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwatch.show._format import dimensions, nonfinite, number, percent, printable


@given(st.floats(-1e308, 1e308), st.sampled_from([3, 4]))
def test_a_number_reads_back_to_its_digits(value, digits):
    """What is shown, read again, is the value to the digits promised."""
    text = number(value, digits)
    assert float(text) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits), abs=0)
    assert len(text) <= digits + 7
    if 1e-9 <= abs(value) < 9e9:
        assert len(text) <= digits + 5


@given(st.floats(allow_nan=False, allow_infinity=False).filter(bool))
def test_only_zero_is_shown_as_zero(value):
    """However small, a number that is not zero has a digit that is not zero."""
    assert number(value).strip("-0.").partition("e")[0]
    assert number(0.0) == "0"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (math.nan, "NaN"),
        (math.inf, "+∞"),
        (-math.inf, "-∞"),
        (-0.0, "0"),
        (1.0, "1.000"),
        (0.00099999, "0.001000"),
        (0.00099994, "9.999e-4"),
        (99999.6, "1.000e5"),
        (-54321.0, "-54321"),
        (1e-300, "1.000e-300"),
    ],
)
def test_each_kind_of_number_has_its_mark(value, text):
    """Not measured, NaN, ∞ and zero are told apart, and rounding changes no form."""
    assert number(value) == text


@given(st.floats(0, 1))
def test_a_share_never_reads_as_none_or_all_unless_it_is(share):
    """0 and 100 are exact claims; what is near them says on which side it is."""
    text = percent(share)
    assert (text == "0") == (share == 0)
    assert (text == "100") == (share == 1)
    if text[0] not in "<>":
        assert float(text) == pytest.approx(100 * share, abs=0.0501)
        assert (float(text) == 0) == (share == 0)
        assert (float(text) == 100) == (share == 1)
    assert percent(None) == "—"
    assert percent(math.nan) == "NaN"


def test_shapes_are_short():
    """A shape is its lengths with × between them; no axes is a scalar."""
    assert dimensions((3, 3, 1, 16)) == "3×3×1×16"
    assert dimensions((7,)) == "7"
    assert dimensions(()) == "scalar"


def test_each_kind_of_nonfinite_is_counted_by_its_own_mark():
    """NaN, +∞ and -∞ are named apart; none of them is 0; not measured is a dash."""
    assert nonfinite(3, 1, 2) == "3 NaN, 1 +∞, 2 -∞"
    assert nonfinite(0, 0, 5) == "5 -∞"
    assert nonfinite(0, 0, 0) == "0"
    assert nonfinite(None, 0, 0) == "—"


@given(st.text())
def test_no_text_can_move_the_cursor(text):
    """After cleaning there is no line end, escape code or direction mark left."""
    assert printable(text).isprintable()


def test_text_that_is_harmless_stays_as_it_is():
    """Letters of any script and spaces are not touched; a line end is spelled out."""
    assert printable("größe 層/kernel") == "größe 層/kernel"
    assert printable("a\nb\u202e") == "a\\nb\\u202e"
