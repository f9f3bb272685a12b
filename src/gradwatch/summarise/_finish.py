"""Sums from the step become columns, on the host and in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._columns import COLUMNS, SCALED, blank
from ._step import SUMS

Array = NDArray[Any]


def finish(sums: Array, scale: float = 1.0) -> NDArray[np.float32]:
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
        shrink = np.exp2(-exponent)
        columns = {
            "norm": np.sqrt(given["squares"]),
            "mean": mean,
            "std": std,
            "min": given["low"] * shrink,
            "max": given["high"] * shrink,
            "mean_abs": given["absolute"] / seen,
            "zeros": given["zeros"] / sampled,
            "underflow": (given["vanishing"] - given["zeros"]) / sampled,
        }
    for name in SCALED:
        if name in columns:
            columns[name] = np.where(finite > 0, columns[name] / scale, np.nan)
    columns |= {name: given[name] for name in ("nan", "posinf", "neginf")}
    columns, exponent = _multiplied(columns, exponent)
    rows = blank((len(size), len(COLUMNS)))
    for name, values in columns.items():
        rows[:, COLUMNS.index(name)] = values
    rows[:, COLUMNS.index("exponent")] = exponent
    return rows


def _multiplied(
    columns: dict[str, Array], exponent: Array
) -> tuple[dict[str, Array], Array]:
    """Multiplies back what was scaled, on lines where a float32 can hold all of it.

    Still in float64: beside 1e20, a smallest number of 1e-30 would be none in between.
    """
    names = [name for name in SCALED if name in columns]
    scaled = np.stack([columns[name] for name in names])
    with np.errstate(all="ignore"):
        whole = scaled * np.exp2(exponent)
        lost = (np.abs(whole) < np.finfo(np.float32).tiny) & (scaled != 0)
        large = np.abs(whole) > np.finfo(np.float32).max
    fits = ~np.any(large | lost, axis=0)
    kept = np.where(fits, whole, scaled)
    return columns | dict(zip(names, kept, strict=True)), np.where(fits, 0.0, exponent)


def norms(pairs: Array) -> Array:
    """Returns the norm of each line of what `squares` measured, as float64."""
    with np.errstate(all="ignore"):
        sums, exponents = np.asarray(pairs, np.float64).T
        found: Array = np.sqrt(sums) * np.exp2(exponents)
    return found


def _over(above: Array, below: Array) -> Array:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
