"""Data of any kind as batches: `(x, y)`, one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ..._errors import GradwatchError

SIZE = 32
"""Number of examples in a batch cut from arrays, as in Keras."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a dataset.

    Attributes:
        total: Number of batches; None where it is unknown.
        at: Returns a batch by its number, where that is possible.
        iterable: Gives all of them in order, where that is not.
    """

    total: int | None
    at: Callable[[int], Any] | None = None
    iterable: Iterable[Any] = ()

    def start(self, number: int) -> Iterator[DatasetBatch]:
        """Returns an iterator from this batch on, or from the first without `at`."""
        # No name is bound to a batch: it would keep it while the next one is made.
        if self.at is None:
            return map(unpacked, self.iterable)
        every = itertools.count(number)
        numbers = every if self.total is None else range(number, self.total)
        return map(unpacked, map(self.at, numbers))


@dataclass(frozen=True, slots=True)
class DatasetBatch:
    """One batch: NumPy arrays in the structure that the data has."""

    x: Any
    y: Any

    @property
    def rows(self) -> int:
        """Number of examples."""
        return next((int(a.shape[0]) for a in leaves(self.x) if _is_array(a)), 0)


def batches_of(data: Any, batch_size: int | None) -> Batches:
    """Returns the batches of arrays, a dataset, an iterable or a function.

    Raises:
        GradwatchError: If `data` is none of these.
    """
    if isinstance(data, keras.utils.PyDataset):
        return Batches(data.num_batches, data.__getitem__)
    if _is_arrays(data):
        return _cut(data, batch_size or SIZE)
    if not isinstance(data, Iterable | type) and callable(data):
        data = data()
    if isinstance(data, Iterable):
        return Batches(_length(data), iterable=data)
    raise GradwatchError(
        "`data` must be arrays, a `tf.data.Dataset`, a `keras.utils.PyDataset`, a "
        "generator, a function that makes one, or anything else that gives batches. "
        f"Received: an object of type {type(data).__name__}."
    )


def unpacked(batch: Any) -> DatasetBatch:
    """Unpacks a batch as `fit` does: `x`, `(x, y)` or `(x, y, sample_weight)`."""
    # A list, too: that is what torch's DataLoader gives. Several inputs are a dict.
    parts = tuple(batch) if isinstance(batch, list | tuple) else (batch,)
    if not 1 <= len(parts) <= 3:
        raise GradwatchError(
            "`data` must give batches `x`, `(x, y)` or `(x, y, sample_weight)`. "
            f"Received: {len(parts)} things in one. Several inputs are a dict, or a "
            "tuple in the place of `x`."
        )
    return DatasetBatch(*(mapped(_to_numpy, part) for part in (*parts, None)[:2]))


def _to_numpy(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf
    if keras.ops.is_tensor(leaf):
        return np.asarray(keras.ops.convert_to_numpy(leaf))
    if hasattr(leaf, "detach"):  # a tensor of torch, on another backend
        leaf = leaf.detach().cpu()
    return np.asarray(leaf) if hasattr(leaf, "__array__") else leaf


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:  # none, or (of a `tf.data.Dataset`) unknown or infinite
        return None


def _is_array(leaf: Any) -> bool:
    """Returns whether it can be cut along a first axis, in memory or on disk."""
    shape = getattr(leaf, "shape", None)
    return shape is not None and len(shape) > 0 and hasattr(leaf, "__getitem__")


def _is_arrays(data: Any) -> bool:
    """Returns whether it is all examples at once, in a structure as Keras has."""
    if _is_array(data):
        return True
    if not isinstance(data, dict | list | tuple) or not data:
        return False
    items = data.values() if isinstance(data, dict) else data
    # A list of tuples or dicts is a list of batches.
    nested = isinstance(data, list) and any(isinstance(i, tuple | dict) for i in items)
    return not nested and all(_is_arrays(i) for i in items if i is not None)


def _cut(data: Any, size: int) -> Batches:
    # A table of pandas would be cut by columns.
    data = mapped(lambda a: np.asarray(a) if hasattr(a, "columns") else a, data)
    data = (data,) if isinstance(data, list) else data  # several inputs
    lengths = {a.shape[0] for a in leaves(data) if a is not None}
    if len(lengths) > 1:
        raise GradwatchError(
            "The arrays of `data` must have the same number of examples. Received: "
            f"{sorted(lengths)}. Inputs and labels are `(x, y)`, several inputs a "
            "list or a dict."
        )

    def at(number: int) -> Any:
        rows = slice(number * size, (number + 1) * size)
        return mapped(lambda a: a[rows], data)

    return Batches(-(-lengths.pop() // size), at)


# Not `keras.tree`: on torch it leaves reference cycles behind, which keep a batch alive
# until the next garbage collection, and batches may be large (Keras 3.15.1).


def leaves(structure: Any) -> Iterator[Any]:
    """Yields the leaves of dicts, lists and tuples.

    Example:
    >>> [*leaves({"a": 1, "b": [2, (3, None)]})]
    [1, 2, 3, None]
    """
    if isinstance(structure, Mapping):
        structure = list(structure.values())
    if isinstance(structure, list | tuple):
        for item in structure:
            yield from leaves(item)
    else:
        yield structure


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """Returns the structure with each leaf that is not None replaced.

    Example:
    >>> mapped(str, {"a": 1, "b": [2, (3, None)]})
    {'a': '1', 'b': ['2', ('3', None)]}
    """
    if isinstance(structure, Mapping):
        return {key: mapped(function, item) for key, item in structure.items()}
    if isinstance(structure, list | tuple):
        items = [mapped(function, item) for item in structure]
        if hasattr(structure, "_fields"):
            return type(structure)(*items)
        return items if isinstance(structure, list) else tuple(items)
    return None if structure is None else function(structure)
