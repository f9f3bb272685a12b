"""Sums from the step become columns, on the host and in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._columns import COLUMNS, blank
from ._measure import SUMS

Array = NDArray[Any]

_OF_THE_GRADIENT = ("norm", "mean", "std", "min", "max", "mean_abs")
"""The columns that grow with the gradient, and so with the scale of the loss."""


def finish(sums: Array, scale: float = 1.0) -> NDArray[np.float64]:
    """Returns the columns of each row; those the sums say nothing of are blank.

    Args:
        sums: `[rows, len(SUMS)]`, from `measure`.
        scale: Factor of the loss; the columns are of the gradient without it.
    """
    sums_of = dict(zip(SUMS, np.asarray(sums, np.float64).T, strict=True))
    size, sampled, exponent = sums_of["size"], sums_of["sampled"], sums_of["exponent"]
    nonfinite = sums_of["nan"] + sums_of["posinf"] + sums_of["neginf"]
    finite = size - nonfinite
    # Of a sample, the share that is not finite is not known apart: take the whole's.
    seen = np.where(sampled >= size, finite, sampled * _over(finite, size))
    with np.errstate(all="ignore"):
        mean = sums_of["total"] / finite
        spread = np.where(sampled >= size, sums_of["spread"] / finite, np.nan)
        moments = sums_of["squares"] / finite - mean**2
        variance = np.where(np.isnan(spread), moments, spread)
        variance = np.where(sums_of["low"] == sums_of["high"], 0.0, variance)
        std = np.sqrt(np.maximum(variance, 0.0))
        # The step divides by a power of two before it squares; here there is room.
        power = np.exp2(exponent)
        columns = {
            "norm": np.sqrt(sums_of["squares"]) * power,
            "mean": mean * power,
            "std": std * power,
            "min": sums_of["low"],
            "max": sums_of["high"],
            "mean_abs": sums_of["absolute"] / seen * power,
            "zeros": sums_of["zeros"] / sampled,
            "underflow": (sums_of["vanishing"] - sums_of["zeros"]) / sampled,
        }
    for name in _OF_THE_GRADIENT:
        columns[name] = np.where(finite > 0, columns[name] / scale, np.nan)
    columns |= {name: sums_of[name] for name in ("nan", "posinf", "neginf")}
    rows = blank((len(size), len(COLUMNS)))
    for name, values in columns.items():
        rows[:, COLUMNS.index(name)] = values
    return rows


def norms(pairs: Array) -> Array:
    """Returns the norm of each row of what `squares` measured, as float64."""
    with np.errstate(all="ignore"):
        sums, exponents = np.asarray(pairs, np.float64).T
        result: Array = np.sqrt(sums) * np.exp2(exponents)
    return result


def _over(above: Array, below: Array) -> Array:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
