"""Arrays in, plain numbers out: what a person wants to know of a sick tensor."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

LIMITS = {
    "float16": 65504.0,
    "bfloat16": 3.3895314e38,
    "float32": 3.4028235e38,
    "float64": 1.7976931348623157e308,
}
"""The largest finite number of each dtype."""


def dtype_of(tensor: Any) -> str:
    """Returns the dtype by the name that Keras gives it."""
    return str(keras.backend.standardize_dtype(tensor.dtype))


def floats(tensor: Any) -> np.ndarray | None:
    """Returns the numbers of a floating-point tensor, or None: others are finite."""
    if tensor is None or "float" not in str(getattr(tensor, "dtype", "")):
        return None
    return wide(np.asarray(keras.ops.convert_to_numpy(tensor)))


def wide(array: np.ndarray) -> np.ndarray:
    """Returns half precision as float32: NumPy does not know all kinds of it."""
    return array if array.dtype.itemsize > 2 else array.astype("float32")


def is_bad(array: np.ndarray | None) -> bool:
    """Whether some number is NaN or infinite."""
    return array is not None and not bool(np.isfinite(array).all())


def counts(array: np.ndarray | None) -> dict[str, Any]:
    """Counts NaN and the infinities, and says where the first of them is."""
    if array is None:
        return {}
    bad = ~np.isfinite(array)
    first = np.unravel_index(int(bad.argmax()), array.shape) if bad.any() else None
    return {
        "nan": int(np.isnan(array).sum()),
        "posinf": int(np.isposinf(array).sum()),
        "neginf": int(np.isneginf(array).sum()),
        "size": int(array.size),
        "shape": [int(n) for n in array.shape],
        "first_index": None if first is None else [int(i) for i in first],
    }


def described(array: np.ndarray, dtype: str) -> dict[str, Any]:
    """Describes what went into an operation; least and largest of the finite ones."""
    array = wide(array)
    finite = array[np.isfinite(array)]
    return {
        "shape": [int(n) for n in array.shape],
        "dtype": dtype,
        "min": float(finite.min()) if finite.size else None,
        "max": float(finite.max()) if finite.size else None,
        "zeros": int((array == 0).sum()),
        "negative": int((array < 0).sum()),
        "nonfinite": int(array.size - finite.size),
    }


def largest(array: np.ndarray | None) -> float:
    """Returns the largest finite magnitude; 0 where there is none."""
    if array is None:
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0
