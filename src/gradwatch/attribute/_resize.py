"""Linear interpolation along one axis, as image libraries do it."""

from __future__ import annotations

import numpy as np


def resized(values: np.ndarray, axis: int, length: int) -> np.ndarray:
    """Resizes one axis to a length; pixels are cells, and their centres are aligned.

    Doing it axis by axis is bilinear interpolation in two dimensions, trilinear in
    three. The same as `keras.ops.image.resize(…, "bilinear")`.

    Example:
    >>> resized(np.array([0.0, 1.0]), 0, 4)
    array([0.  , 0.25, 0.75, 1.  ])
    """
    old = values.shape[axis]
    if old == length:
        return values
    centres = (np.arange(length) + 0.5) * old / length - 0.5
    centres = np.clip(centres, 0, old - 1)
    low = np.floor(centres).astype(int)
    high = np.minimum(low + 1, old - 1)
    shape = [1] * values.ndim
    shape[axis] = length
    share = (centres - low).astype(values.dtype).reshape(shape)
    below, above = np.take(values, low, axis), np.take(values, high, axis)
    return np.asarray(below * (1 - share) + above * share)
