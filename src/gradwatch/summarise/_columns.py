"""The numbers of one variable at one recorded step, and their names.

A recorded step is a matrix of float64: one row per watched tensor, one column per name
in `COLUMNS`. Beside it, where due, stand the counts of a histogram of fixed size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = (
    *("norm", "mean", "std", "min", "max", "mean_abs"),
    *("zeros", "underflow", "nan", "posinf", "neginf"),
    *("weight_norm", "update_norm", "applied_norm"),
)
"""The columns of a row, in order.

The first eleven are those of `Row`: of the unscaled gradient before clipping, over its
finite elements. `applied_norm` is the norm of what the optimizer's rule was given,
after accumulation and clipping.
"""

_ROW = COLUMNS.index("weight_norm")
_DIVIDED = [COLUMNS.index(name) for name in ("norm", "mean", "std", "mean_abs")]

# "Not measured" is neither zero nor NaN (which is "measured, NaN"). In a float64 it is
# this NaN, whose payload no arithmetic makes. A float32 can hold the payload, too, so
# that an array which was made narrow on its way still says what was not measured.
_BLANK = np.uint64(0x7FF8_0CEE_E000_0000)


def blank(shape: Any) -> NDArray[np.float64]:
    """Returns an array of float64 in which nothing is measured.

    Example:
    >>> bool(is_blank(blank((2, 3))).all())
    True
    """
    return np.full(shape, _BLANK, np.uint64).view(np.float64)


def is_blank(rows: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Returns where nothing was measured; a NaN that was measured is not that.

    Example:
    >>> import numpy as np
    >>> is_blank(np.array([0.0, np.nan])).tolist()
    [False, False]
    """
    wide = np.asarray(rows, np.float64)
    measured: NDArray[np.bool_] = wide.view(np.uint64) != _BLANK
    return ~measured


LOWEST, HIGHEST = -40, 23
"""The exponents of the smallest and the largest bucket of each sign."""

OCTAVES = HIGHEST - LOWEST + 1
BUCKETS = 2 * OCTAVES
"""The size of every histogram.

Bucket `OCTAVES + k` counts values in `[2 ** (LOWEST + k), 2 ** (LOWEST + k + 1))`,
bucket `OCTAVES - 1 - k` their negatives: the buckets run along the number line. The
outermost and the innermost ones take what is beyond them. Zeros, NaN and infinities are
not in a histogram: they have columns of their own.
"""


def bucket_edges() -> NDArray[np.float64]:
    """Returns the `BUCKETS + 1` edges, ascending, from minus to plus `2 ** 24`.

    Example:
    >>> edges = bucket_edges()
    >>> len(edges), float(edges[64]), bool(edges[65] == 2.0**-39)
    (129, 0.0, True)
    """
    positive = np.ldexp(1.0, np.arange(LOWEST + 1, HIGHEST + 2))
    return np.concatenate([-positive[::-1], [0.0], positive])


def finished(parts: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Returns what a step sent with its range, on the host and in float64.

    Any number of leading axes may stand before the rows: many steps at once. What the
    native sweep sent is float64, or where the framework has none, pairs of uint32 that
    are its bits. What `Lean` sent has a last column more, for each group of columns
    that it belongs to, which is the exponent.
    """
    result = {name: _wide(name, np.asarray(part)) for name, part in parts.items()}
    some = result.get("rows", result.get("values"))
    if some is not None and some.shape[-1] == _ROW and some.dtype == np.float64:
        return result  # of the native sweep
    with np.errstate(all="ignore"):
        for name in ("rows", "values", "gradients"):
            if name in result and result[name].shape[-1] > _ROW:
                rows = result[name].astype(np.float64)
                rows[..., _DIVIDED] *= np.exp2(rows[..., _ROW:])
                result[name] = rows[..., :_ROW]
        if "moves" in result and result["moves"].shape[-1] == 6:
            halves = np.split(result["moves"].astype(np.float64), 2, axis=-1)
            halves = [half[..., :2] * np.exp2(half[..., 2:]) for half in halves]
            result["moves"] = np.concatenate(halves, axis=-1)
        axes = result["rows"].ndim - 1 if "rows" in result else 1
        for name in {"accumulated", "applied"} & result.keys():
            if result[name].ndim > axes:
                norms, exponents = result[name].astype(np.float64).T
                result[name] = (norms * np.exp2(exponents)).T
    return result


def _wide(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Returns float64 where an array holds pairs of uint32; counts are counts."""
    if array.dtype != np.uint32 or name == "counts":
        return array
    wide = np.ascontiguousarray(array).view(np.float64)
    return wide[..., 0] if wide.shape[-1] == 1 else wide
