"""Converts the arrays of the caller to tensors, as `fit` does."""

from __future__ import annotations

import contextlib
import numbers
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from .._errors import GradwatchError, arg


def to_tensors(value: Any, argument: str, *, text: bool = False) -> Any:
    """Converts a structure of arrays, or nested lists of numbers.

    Args:
        value: The argument as the caller passed it.
        argument: Name of the argument, for error messages.
        text: Whether strings are allowed.

    Raises:
        GradwatchError: If it is not one batch of numbers.
    """
    is_dataset = type(value).__module__.startswith(
        ("tensorflow.python.data", "torch.utils.data")
    )
    if is_dataset or isinstance(value, Iterator | keras.utils.PyDataset):
        raise GradwatchError(
            f"{arg(argument)} must be one batch of arrays. Received: "
            f"{type(value).__name__}, which yields many. Take one: "
            "`x, y = next(iter(dataset))`."
        )
    flat = keras.tree.flatten(value)
    is_list = isinstance(value, list | tuple)
    if is_list and flat and all(isinstance(v, numbers.Number | str) for v in flat):
        value = _array(value, argument)
    return keras.tree.map_structure(lambda leaf: _tensor(leaf, argument, text), value)


def _array(value: Any, argument: str) -> np.ndarray:
    with contextlib.suppress(Exception):
        array = np.asarray(value)
        if array.dtype.kind in "biufUSV":
            return array
    what = f"an object of type {type(value).__name__}"
    if isinstance(value, list | tuple):
        what = "lists of unequal length or mixed type"
    elif getattr(value, "dtype", None) is not None:
        what = f"dtype {value.dtype}"
    raise GradwatchError(
        f"{arg(argument)} must hold arrays of real numbers. Received: {what}. Make it "
        "a NumPy array of one dtype."
    )


def _tensor(leaf: Any, argument: str, text: bool) -> Any:
    """Converts an array like `fit`: floating-point numbers become `floatx`."""
    if leaf is None:
        return None
    if isinstance(leaf, keras.KerasTensor):
        raise GradwatchError(
            f"{arg(argument)} must hold numbers. Received: the symbolic tensor "
            f"{leaf.name!r} of shape {leaf.shape}, which stands for data but has none. "
            "Pass a batch of arrays; the gradient at a layer inside the model is "
            "`wrt=gradwatch.activations(…)`."
        )
    if keras.ops.is_tensor(leaf):
        return leaf
    array = _array(leaf, argument)
    if array.dtype.kind in "US" and (not text or array.ndim == 0):
        raise GradwatchError(
            f"{arg(argument)} must hold numbers. Received: text. Load the data first, "
            "and turn words into numbers with a `keras.layers.TextVectorization`."
        )
    # Half precision stays as it is, as in `fit`.
    is_wide = array.dtype.kind == "f" and array.dtype.itemsize > 2
    dtype = keras.config.floatx() if is_wide else None
    return keras.ops.convert_to_tensor(array, dtype=dtype)


def batch_size(structure: Any, argument: str) -> int:
    """Returns the length of the first axis, which all tensors must share.

    Raises:
        GradwatchError: If there is no batch axis or no example, or if sizes differ.
    """
    tensors = [t for t in keras.tree.flatten(structure) if t is not None]
    if not tensors:
        raise GradwatchError(
            f"{arg(argument)} must hold at least one array. Received: {structure!r}."
        )
    sizes = set()
    for tensor in tensors:
        if len(tensor.shape) == 0:
            raise GradwatchError(
                f"{arg(argument)} must have a batch axis. Received: a single number. "
                f"Write `np.asarray([{argument}])` for a batch of one."
            )
        if tensor.shape[0] is None:
            raise GradwatchError(
                f"{arg(argument)} must have a known number of examples. Received: "
                f"shape {tuple(tensor.shape)} inside a `tf.function`. Call it outside, "
                "or use `gradwatch.Tape`."
            )
        sizes.add(int(tensor.shape[0]))
    if len(sizes) > 1:
        raise GradwatchError(
            f"The arrays of {arg(argument)} must have the same number of examples. "
            f"Received: {sorted(sizes)}."
        )
    size = sizes.pop()
    if size == 0:
        raise GradwatchError(
            f"{arg(argument)} must have at least one example. Received: an empty batch "
            f"of shape {tuple(tensors[0].shape)}."
        )
    return size


def array_of(variable: Any) -> np.ndarray:
    """Returns a variable as a NumPy array, without Keras's deprecation warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.asarray(keras.ops.convert_to_numpy(variable.value))
