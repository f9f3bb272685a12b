"""Values as short texts: numbers, shares, shapes, counts of what is not finite."""

from __future__ import annotations

import math

NOT_MEASURED = "—"
TIMES = "×"


def number(value: float | None, digits: int = 4) -> str:
    """Returns a number with `digits` significant digits, in at most `digits + 7` cells.

    (A sign, a point, an "e" and an exponent of three digits with its sign.)

    Example:
    >>> number(0.00123456), number(-1.5e-7), number(12345.6), number(0.0)
    ('0.001235', '-1.500e-7', '12346', '0')
    >>> number(None), number(float("nan")), number(float("inf"))
    ('—', 'NaN', '+∞')
    """
    if value is None:
        return NOT_MEASURED
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    # Rounded first: 0.00099999 has the exponent of 0.001.
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -3 <= power <= 4:
        return f"{value:.{max(0, digits - 1 - power)}f}"
    return f"{mantissa}e{power}"


def percent(share: float | None) -> str:
    """Returns a share in percent; only 0 is shown as 0, and only all as 100.

    Example:
    >>> percent(0.5), percent(0.00001), percent(0.99999), percent(1.0)
    ('50.0', '<0.1', '>99.9', '100')
    """
    if share is None or not math.isfinite(share):
        return number(share)
    if share in (0, 1):
        return str(int(share * 100))
    text = f"{100 * share:.1f}"
    return {"0.0": "<0.1", "100.0": ">99.9"}.get(text, text)


def dimensions(shape: tuple[int, ...]) -> str:
    """Returns a shape in few cells.

    Example:
    >>> dimensions((3, 3, 16, 32)), dimensions((10,)), dimensions(())
    ('3×3×16×32', '10', 'scalar')
    """
    return TIMES.join(map(str, shape)) or "scalar"


def nonfinite(nan: int | None, posinf: int | None, neginf: int | None) -> str:
    """Returns the numbers of elements that are not finite, by kind.

    Example:
    >>> nonfinite(3, 1, 0), nonfinite(0, 0, 0), nonfinite(None, None, None)
    ('3 NaN, 1 +∞', '0', '—')
    """
    if nan is None or posinf is None or neginf is None:
        return NOT_MEASURED
    counts = ((nan, "NaN"), (posinf, "+∞"), (neginf, "-∞"))
    return ", ".join(f"{count} {mark}" for count, mark in counts if count) or "0"


def printable(text: str) -> str:
    r"""Returns the text with everything that could move a cursor spelled out.

    Line ends, escape codes and marks that change the writing direction would let a
    layer's name disturb the table around it.

    Example:
    >>> print(printable("a\x1b[31m\n"))
    a\x1b[31m\n
    """
    if text.isprintable():
        return text
    # The repr of a character that cannot be printed spells it out, in quotes.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
