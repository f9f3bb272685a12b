"""Plain numbers about a tensor that is not finite, or that went into an operation."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ...backends import Sparse


def limit_of(dtype: str) -> float:
    """Returns the largest finite number of a dtype; of float32 if it is not known."""
    if dtype == "bfloat16":  # NumPy does not know it
        return 3.3895314e38
    known = dtype if dtype in ("float16", "float64") else "float32"
    return float(np.finfo(known).max)


def dtype_of(tensor: Any) -> str:
    """Returns the dtype by the name that Keras gives it."""
    tensor = tensor.values if isinstance(tensor, Sparse) else tensor
    return str(keras.backend.standardize_dtype(tensor.dtype))


def floats(tensor: Any) -> np.ndarray | None:
    """Returns the numbers of a floating-point tensor, or None: others are finite.

    Of a sparse gradient, those of its rows.
    """
    tensor = tensor.values if isinstance(tensor, Sparse) else tensor
    if tensor is None or "float" not in str(getattr(tensor, "dtype", "")):
        return None
    if not isinstance(tensor, np.ndarray):
        tensor = np.asarray(keras.ops.convert_to_numpy(tensor))
    return wide(tensor)


def wide(array: np.ndarray) -> np.ndarray:
    """Returns half precision as float32: NumPy does not know all kinds of it."""
    return array if array.dtype.itemsize > 2 else array.astype("float32")


def is_bad(tensor: Any) -> bool:
    """Returns whether some number of a tensor is NaN or infinite."""
    array = floats(tensor)
    return array is not None and not bool(np.isfinite(array).all())


def counts(tensor: Any) -> dict[str, Any]:
    """Returns the number of NaN and infinities, and the index of the first of them."""
    array = floats(tensor)
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
    """Describes an input of an operation; least and largest are of its finite ones."""
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


def largest(tensor: Any) -> float:
    """Returns the largest finite magnitude of a tensor; 0 if there is none."""
    array = floats(tensor)
    finite = np.empty(0) if array is None else np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0
