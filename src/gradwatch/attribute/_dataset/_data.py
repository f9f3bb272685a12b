"""Data of any kind as batches: `(x, y)`, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ..._errors import GradwatchError
from ._structure import leaves, mapped

SIZE = 32
"""How many examples of arrays make a batch, as in Keras."""


@dataclass(frozen=True)
class Source:
    """Where batches come from.

    Attributes:
        total: How many there are; None when nobody knows.
        at: Gives one by its number, where that is possible.
        walk: Gives all, from the first one.
    """

    total: int | None
    at: Callable[[int], Any] | None
    walk: Callable[[], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: NumPy arrays in the structure that the data has."""

    x: Any
    y: Any

    @property
    def rows(self) -> int:
        """How many examples it has."""
        for leaf in leaves(self.x):
            if _array(leaf):
                return int(leaf.shape[0])
        return 0


def source(data: Any, batch_size: int | None) -> Source:
    """Finds out what the data is.

    Raises:
        GradwatchError: When it is nothing that batches can be taken from.
    """
    if isinstance(data, keras.utils.PyDataset):
        total = data.num_batches
        at = data.__getitem__
        return Source(total, at, lambda: map(at, _count(total)))
    if _arrays(data):
        return _of_arrays(data, batch_size or SIZE)
    if isinstance(data, Iterable):
        return Source(_length(data), None, lambda: iter(data))
    if callable(data) and not isinstance(data, type):
        made = data()
        if isinstance(made, Iterable):
            return Source(_length(made), None, lambda: iter(made))
    raise GradwatchError(
        "`data` must be arrays, a `tf.data.Dataset`, a `keras.utils.PyDataset`, a "
        "generator, a function that makes one, or anything else that gives batches. "
        f"Received: an object of type {type(data).__name__}."
    )


def unpacked(batch: Any) -> Batch:
    """Takes a batch apart as `fit` does: `x`, `(x, y)` or `(x, y, sample_weight)`."""
    # A list, too: that is what torch's DataLoader gives. Several inputs are a dict.
    parts = tuple(batch) if isinstance(batch, list | tuple) else (batch,)
    if not 1 <= len(parts) <= 3:
        raise GradwatchError(
            "`data` must give batches `x`, `(x, y)` or `(x, y, sample_weight)`. "
            f"Received: {len(parts)} things in one. Several inputs are a dict, or a "
            "tuple in the place of `x`."
        )
    return Batch(*(mapped(_host, part) for part in (*parts, None)[:2]))


def _host(leaf: Any) -> Any:
    """Returns numbers as NumPy has them, whichever framework made them."""
    if isinstance(leaf, np.ndarray):
        return leaf
    if keras.ops.is_tensor(leaf):
        return np.asarray(keras.ops.convert_to_numpy(leaf))
    if hasattr(leaf, "detach"):  # a tensor of torch's, on another backend
        leaf = leaf.detach().cpu()
    return np.asarray(leaf) if hasattr(leaf, "__array__") else leaf


def _count(total: int | None) -> Iterator[int]:
    number = 0
    while total is None or number < total:
        yield number
        number += 1


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:  # none, or (of a `tf.data.Dataset`) unknown or infinite
        return None


def _array(leaf: Any) -> bool:
    """Whether it is cut into examples along its first axis: also one on disk."""
    shape = getattr(leaf, "shape", None)
    return shape is not None and len(shape) > 0 and hasattr(leaf, "__getitem__")


def _arrays(data: Any) -> bool:
    """Whether it is all the examples at once: arrays, in a structure as Keras has."""
    if _array(data):
        return True
    if not isinstance(data, dict | list | tuple) or not data:
        return False
    items = data.values() if isinstance(data, dict) else data
    # A list of tuples or dicts is a list of batches.
    nested = isinstance(data, list) and any(isinstance(i, tuple | dict) for i in items)
    return not nested and all(_arrays(i) for i in items if i is not None)


def _of_arrays(data: Any, size: int) -> Source:
    # A table of pandas is cut by columns, if one asks it.
    data = mapped(lambda a: np.asarray(a) if hasattr(a, "columns") else a, data)
    data = (data,) if isinstance(data, list) else data  # several inputs
    lengths = {a.shape[0] for a in leaves(data) if a is not None}
    if len(lengths) > 1:
        raise GradwatchError(
            "The arrays of `data` must have the same number of examples. Received: "
            f"{sorted(lengths)}. Inputs and labels are `(x, y)`, several inputs a "
            "list or a dict."
        )
    total = -(-lengths.pop() // size)

    def at(number: int) -> Any:
        rows = slice(number * size, (number + 1) * size)
        return mapped(lambda a: a[rows], data)

    return Source(total, at, lambda: map(at, range(total)))
