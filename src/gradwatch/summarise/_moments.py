"""Sums of one chunk of numbers, and how the sums of many chunks add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Half of the smallest float16 number (2 ** -24): what is not larger rounds to zero,
# the tie included, because ties go to the even neighbour.
FLOAT16_VANISHES = 2.0**-25

# Squares of numbers within 2 ** ±400 neither overflow nor lose digits. Every
# float32 is, so scaling costs something only for extreme float64 arrays.
_SAFE = 400
# 2 ** -exponent must itself be a float64. What this leaves unscaled (a factor of
# 2 ** 24 upwards, 2 ** -74 downwards) has room to be squared.
_LAST = 1000


@dataclass(frozen=True, slots=True)
class Part:
    """The sums of one chunk.

    The four sums are over the finite elements divided by `2 ** exponent`. A power
    of two changes no digit, so scaling costs no accuracy. The lowest exponent stands
    for "nothing but zeros", so that these never decide the scale of the whole.
    """

    size: int
    finite: int = 0
    zeros: int = 0
    underflow: int = 0
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    low: float = math.inf
    high: float = -math.inf
    exponent: int = -_LAST
    total: float = 0.0
    total_abs: float = 0.0
    squares: float = 0.0
    spread: float = 0.0  # squared distances from this chunk's own mean


def zeros_part(size: int) -> Part:
    """Returns the part of `size` exact zeros, without making them."""
    return Part(size=size, finite=size, zeros=size, low=0.0, high=0.0)


def measure(chunk: NDArray[np.float64]) -> Part:
    """Returns the part of one non-empty, one-dimensional chunk."""
    low, high = float(chunk.min()), float(chunk.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        return _measure_around_nonfinite(chunk)
    magnitudes = np.abs(chunk)
    zeros = int(np.count_nonzero(chunk == 0.0))
    vanishing = int(np.count_nonzero(magnitudes <= FLOAT16_VANISHES))
    exponent = _exponent(max(-low, high))
    if exponent != 0:
        factor = math.ldexp(1.0, -exponent)
        chunk, magnitudes = chunk * factor, magnitudes * factor
    total = float(chunk.sum())
    # Distances from the mean, not "mean of squares less square of mean": that
    # difference has no correct digit when the mean is large beside the spread.
    distances = chunk - total / chunk.size
    # `square` and `sum`, not `@`: BLAS may start threads for a chunk, which costs a
    # hundred times the work where the processors are shared.
    return Part(
        size=chunk.size,
        finite=chunk.size,
        zeros=zeros,
        underflow=vanishing - zeros,
        low=low,
        high=high,
        exponent=exponent,
        total=total,
        total_abs=float(magnitudes.sum()),
        squares=float(np.square(chunk).sum()),
        spread=float(np.square(distances).sum()),
    )


def _measure_around_nonfinite(chunk: NDArray[np.float64]) -> Part:
    """Returns the part of the finite elements, the others counted apart."""
    finite = chunk[np.isfinite(chunk)]
    return replace(
        measure(finite) if finite.size else Part(size=0),
        size=chunk.size,
        nan=int(np.count_nonzero(np.isnan(chunk))),
        posinf=int(np.count_nonzero(np.isposinf(chunk))),
        neginf=int(np.count_nonzero(np.isneginf(chunk))),
    )


def _exponent(magnitude: float) -> int:
    """Returns the power of two to divide by before squaring; 0 when none is needed."""
    if magnitude == 0.0:
        return -_LAST
    exponent = math.frexp(magnitude)[1]
    if abs(exponent) <= _SAFE:
        return 0
    return max(-_LAST, min(_LAST, exponent))


def combine(parts: Sequence[Part]) -> dict[str, Any]:
    """Returns the numbers of a `Row` over all parts (Chan, Golub, LeVeque 1983, 2.1).

    The sums of the parts are added with `math.fsum`, so the number of chunks adds
    no rounding error of its own.
    """
    size = sum(part.size for part in parts)
    counts = {
        name: sum(getattr(part, name) for part in parts)
        for name in ("zeros", "underflow", "nan", "posinf", "neginf")
    }
    for share in ("zeros", "underflow"):
        counts[share] = counts[share] / size if size else math.nan
    return {"size": size, **_moments(parts), **counts}


def _moments(parts: Sequence[Part]) -> dict[str, float]:
    """Returns the numbers of the finite elements; NaN if there are none."""
    parts = [part for part in parts if part.finite]
    count = sum(part.finite for part in parts)
    if count == 0:
        return dict.fromkeys(
            ("norm", "mean", "std", "min", "max", "mean_abs"), math.nan
        )
    top = max(part.exponent for part in parts)
    low, high = min(p.low for p in parts), max(p.high for p in parts)
    mean = _sum_of((p.total, p.exponent - top) for p in parts) / count
    absolute = _sum_of((p.total_abs, p.exponent - top) for p in parts) / count
    squares = _sum_of((p.squares, 2 * (p.exponent - top)) for p in parts)
    spread = _sum_of((p.spread, 2 * (p.exponent - top)) for p in parts)
    spread += math.fsum(
        p.finite * (math.ldexp(p.total / p.finite, p.exponent - top) - mean) ** 2
        for p in parts
    )
    if low == high:  # no rounding of n · x / n may turn a constant into a spread
        mean, spread = math.ldexp(low, -top), 0.0
        absolute = abs(mean)
    return {
        "norm": _ldexp(math.sqrt(squares), top),
        "mean": _ldexp(mean, top),
        "std": _ldexp(math.sqrt(spread / count), top),
        "min": low,
        "max": high,
        "mean_abs": _ldexp(absolute, top),
    }


def _sum_of(scaled: Iterable[tuple[float, int]]) -> float:
    return math.fsum(math.ldexp(value, exponent) for value, exponent in scaled)


def _ldexp(value: float, exponent: int) -> float:
    """Returns `value * 2 ** exponent`; infinity where that is larger than any float."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)
