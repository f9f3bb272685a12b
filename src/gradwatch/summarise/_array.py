"""An array becomes a row: the NumPy way, exact and in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._moments import combine, measure, zeros_part
from ._row import Row

# Elements looked at together: as float64 they stay in a processor's cache, which
# makes the ten passes over a chunk cost about as much as one over the array.
CHUNK = 1 << 16


def summarise_array(name: str, kind: str, array: NDArray[Any]) -> Row:
    """Returns the numbers of one gradient, computed in float64 whatever its type.

    Any real number type goes: float16, bfloat16, float32, float64, integers. The
    extra memory is a few MiB however large the array is; the time is about 4 ns per
    element, and 0.1 ms for a small array.

    Example:
    >>> import numpy as np
    >>> row = summarise_array("dense/bias", "weight", np.array([3.0, -4.0, np.nan, 0]))
    >>> row.norm, row.max, row.nan, row.zeros
    (5.0, 3.0, 1, 0.25)

    Args:
        name: The address the row carries.
        kind: `"weight"`, `"activation"` or `"input"`.
        array: The gradient, of any shape and any memory order.

    Raises:
        ValueError: If the array does not hold real numbers.
    """
    array = np.asarray(array)
    require_real(array, "array")
    numbers = combine([measure(chunk) for chunk in chunks(array)])
    return Row(name, kind, array.shape, str(array.dtype), **numbers)


def require_real(array: NDArray[Any], argument: str) -> None:
    """Refuses what has no order and no sign: complex numbers, text, objects."""
    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise ValueError(
            f"`{argument}` must hold real numbers. Received: an array of dtype "
            f"{str(array.dtype)!r}. Pass the real and the imaginary part, or the "
            "absolute value, as arrays of their own."
        )


def chunks(array: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    """Yields all elements as float64 chunks; each is valid until the next is asked for.

    The elements come in memory order, so a transposed array is not copied.
    """
    yield from np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=["readonly"],
        op_dtypes=np.float64,
        order="K",
        casting="unsafe",
        buffersize=max(1, min(CHUNK, array.size)),
    )


def summarise_rows(
    name: str,
    kind: str,
    indices: NDArray[Any],
    values: NDArray[Any],
    shape: tuple[int, ...],
) -> Row:
    """Returns the numbers of a sparse gradient, without making it dense.

    Rows at the same index are one row of the gradient and are added up before
    anything is measured: the norm of `values` is not the norm of the gradient. They
    are added in float64 and then rounded to the type of `values`, which is what the
    dense array would hold (a backend that adds in float32 may differ in the last
    digit). The cost grows with `values`, not with `shape`.

    Example:
    >>> import numpy as np
    >>> indices, values = np.array([7, 2, 7]), np.array([[1.0], [4.0], [2.0]])
    >>> row = summarise_rows("embed/embeddings", "weight", indices, values, (100, 1))
    >>> row.norm, row.zeros
    (5.0, 0.98)

    Args:
        name: The address the row carries.
        kind: `"weight"`, `"activation"` or `"input"`.
        indices: Which row of the gradient each of `values` belongs to.
        values: One row of the gradient per index.
        shape: The shape of the whole gradient.

    Raises:
        ValueError: If the three do not fit together.
    """
    indices, values = np.asarray(indices), np.asarray(values)
    shape = tuple(int(length) for length in shape)
    require_real(values, "values")
    _require_fit(indices, values, shape)
    width = math.prod(shape[1:])
    rows = _add_up(indices, values.reshape(len(indices), width))
    parts = [measure(chunk) for chunk in chunks(rows)]
    parts.append(zeros_part(math.prod(shape) - rows.size))
    return Row(name, kind, shape, str(values.dtype), **combine(parts))


def _require_fit(
    indices: NDArray[Any], values: NDArray[Any], shape: tuple[int, ...]
) -> None:
    if not shape:
        raise ValueError(
            "`shape` must have at least one axis, the one that `indices` counts. "
            "Received: (). Use `summarise_array` for a dense gradient."
        )
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(
            "`indices` must be one axis of whole numbers. Received: shape "
            f"{indices.shape}, dtype {str(indices.dtype)!r}. Flatten the batch axes "
            "of `indices` and `values` together."
        )
    if values.shape != (indices.size, *shape[1:]):
        raise ValueError(
            "`values` must hold one row of the gradient per index. Received: shape "
            f"{values.shape} for {indices.size} indices into shape {shape}. Expected: "
            f"{(indices.size, *shape[1:])}."
        )
    outside = indices[(indices < 0) | (indices >= shape[0])]
    if outside.size:
        raise ValueError(
            f"`indices` must lie between 0 and {shape[0] - 1}. Received: "
            f"{int(outside[0])}, which is no row of shape {shape}. Drop such rows, or "
            "pass the shape they belong to."
        )


def _add_up(indices: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Returns one row per distinct index: the sum of all its rows."""
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    first = np.ones(len(indices), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    if first.all():
        return values
    group = np.cumsum(first) - 1
    sums = np.zeros((int(group[-1]) + 1, values.shape[1]))
    step = max(1, CHUNK // max(1, values.shape[1]))
    # Infinities of both signs in one row give NaN, and a sum may be too large for
    # the type, as in the dense array: both are counted later, so no warning here.
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(order), step):
            block = slice(start, start + step)
            starts = np.flatnonzero(np.diff(group[block], prepend=-1))
            picked = values[order[block]].astype(np.float64)
            sums[group[block][starts]] += np.add.reduceat(picked, starts, axis=0)
        return sums.astype(values.dtype)
