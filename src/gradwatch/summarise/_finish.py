"""Sums from the step become columns, on the host and in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._columns import COLUMNS, blank
from ._step import SUMS

Array = NDArray[Any]

_OF_THE_GRADIENT = ("norm", "mean", "std", "min", "max", "mean_abs")
"""The columns that grow with the gradient, and so with the scale of the loss."""


def finish(sums: Array, scale: float = 1.0) -> NDArray[np.float64]:
    """Returns the columns of each line; those the sums say nothing of are blank.

    Args:
        sums: `[lines, len(SUMS)]`, from `measure`.
        scale: What the loss was multiplied by. The columns are of the gradient without.
    """
    given = dict(zip(SUMS, np.asarray(sums, np.float64).T, strict=True))
    size, sampled, exponent = given["size"], given["sampled"], given["exponent"]
    nonfinite = given["nan"] + given["posinf"] + given["neginf"]
    finite = size - nonfinite
    # Of a sample, the share that is not finite is not known apart: take the whole's.
    seen = np.where(sampled >= size, finite, sampled * _over(finite, size))
    with np.errstate(all="ignore"):
        mean = given["total"] / finite
        spread = np.where(sampled >= size, given["spread"] / finite, np.nan)
        moments = given["squares"] / finite - mean**2
        variance = np.where(np.isnan(spread), moments, spread)
        variance = np.where(given["low"] == given["high"], 0.0, variance)
        std = np.sqrt(np.maximum(variance, 0.0))
        # The step divides by a power of two before it squares; here there is room.
        power = np.exp2(exponent)
        columns = {
            "norm": np.sqrt(given["squares"]) * power,
            "mean": mean * power,
            "std": std * power,
            "min": given["low"],
            "max": given["high"],
            "mean_abs": given["absolute"] / seen * power,
            "zeros": given["zeros"] / sampled,
            "underflow": (given["vanishing"] - given["zeros"]) / sampled,
        }
    for name in _OF_THE_GRADIENT:
        columns[name] = np.where(finite > 0, columns[name] / scale, np.nan)
    columns |= {name: given[name] for name in ("nan", "posinf", "neginf")}
    rows = blank((len(size), len(COLUMNS)))
    for name, values in columns.items():
        rows[:, COLUMNS.index(name)] = values
    return rows


def norms(pairs: Array) -> Array:
    """Returns the norm of each line of what `squares` measured, as float64."""
    with np.errstate(all="ignore"):
        sums, exponents = np.asarray(pairs, np.float64).T
        found: Array = np.sqrt(sums) * np.exp2(exponents)
    return found


def _over(above: Array, below: Array) -> Array:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
