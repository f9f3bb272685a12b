"""The numbers of the sweep, slowly and exactly: whole numbers instead of floats.

Every float64 is a multiple of 2 ** -1074, so a sum of them is a sum of integers.
Written from the definitions of the columns, not from the C.
"""

import math
from fractions import Fraction

import numpy as np

UNIT = 1074


def whole(value):
    """The number as a multiple of 2 ** -UNIT."""
    above, below = float(value).as_integer_ratio()
    return above * (2**UNIT // below)


def as_float(above, below=1):
    """The nearest float; infinity where it is too large."""
    try:
        return float(Fraction(above, below))
    except OverflowError:
        return math.inf


def root(fraction):
    """The square root of a fraction, to 100 digits, as a fraction."""
    shift = 400 + 2 * UNIT
    return Fraction(
        math.isqrt((fraction.numerator << (2 * shift)) // fraction.denominator),
        1 << shift,
    )


def row(array, scale=1.0):
    """The eleven columns of an array."""
    values = [float(value) for value in np.asarray(array, np.float64).ravel()]
    finite = [value for value in values if math.isfinite(value)]
    by = Fraction(scale)
    moments = [math.nan] * 6
    if finite:
        wholes = [whole(value) for value in finite]
        count, unit = len(wholes), Fraction(1, 2**UNIT)
        squares = sum(w * w for w in wholes)
        total, absolute = sum(wholes), sum(map(abs, wholes))
        spread = Fraction(count * squares - total * total, count * count)
        exact = [
            root(squares * unit**2),
            Fraction(total, count) * unit,
            root(spread * unit**2),
            Fraction(min(finite)),
            Fraction(max(finite)),
            Fraction(absolute, count) * unit,
        ]
        moments = [as_float(value / by) for value in exact]
    size = len(values) or math.nan
    gone = [v for v in finite if v != 0 and abs(Fraction(v)) / by <= Fraction(1, 2**25)]
    return [
        *moments,
        sum(value == 0 for value in values) / size,
        len(gone) / size,
        sum(math.isnan(value) for value in values),
        values.count(math.inf),
        values.count(-math.inf),
    ]


def starts(size):
    """Where the blocks of 1,024 of a sample start; a small tensor is one block."""
    if size <= 65536:
        return [0]
    return [k * (size - 1024) // 63 for k in range(64)]


def sampled(array):
    """The elements of the sample, in order."""
    if array.size <= 65536:
        return array
    return np.concatenate([array[at : at + 1024] for at in starts(array.size)])


def histogram(array, scale=1.0):
    """The counts of a sample, by `math.frexp` of each exact quotient."""
    counts = [0] * 128
    for value in sampled(np.asarray(array)).astype(np.float64):
        if value == 0 or not math.isfinite(value):
            continue
        ratio = abs(Fraction(float(value))) / Fraction(scale)
        exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
        if ratio < Fraction(2) ** exponent:
            exponent -= 1
        octave = min(max(exponent, -40), 23) + 40
        counts[64 + octave if value > 0 else 63 - octave] += 1
    return counts
