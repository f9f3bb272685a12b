"""Data of any kind as batches: `(x, y)`, one after the other, each with its target."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ..._errors import GradwatchError, TargetError, require
from ...targets import Target, class_score

DatasetBatch = tuple[Any, Any]
"""`x` and `y` of a batch: NumPy arrays in the structure that the data has."""


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


def batches_of(data: Any, batch_size: int | None) -> Batches:
    """Returns the batches of arrays, a dataset, an iterable or a function.

    Raises:
        GradwatchError: If `data` is none of these.
    """
    if isinstance(data, keras.utils.PyDataset):
        return Batches(data.num_batches, data.__getitem__)
    if _is_arrays(data):
        return _cut(data, batch_size or 32)  # as in Keras
    if not isinstance(data, Iterable | type) and callable(data):
        data = data()
    if isinstance(data, Iterable):
        total = None
        # There is none, or (of a `tf.data.Dataset`) it is unknown or infinite.
        with contextlib.suppress(TypeError):
            total = len(data)  # type: ignore[arg-type]
        return Batches(total, iterable=data)
    raise GradwatchError(
        "`data` must be arrays, a `tf.data.Dataset`, a `keras.utils.PyDataset`, a "
        "generator, a function that makes one, or anything else that gives batches. "
        f"Received: an object of type {type(data).__name__}."
    )


def unpacked(batch: Any) -> DatasetBatch:
    """Unpacks a batch as `fit` does: `x`, `(x, y)` or `(x, y, sample_weight)`."""
    # A list, too: that is what torch's DataLoader gives. Several inputs are a dict.
    parts = tuple(batch) if isinstance(batch, list | tuple) else (batch,)
    rule = "`data` must give batches `x`, `(x, y)` or `(x, y, sample_weight)`."
    way_out = "Several inputs are a dict, or a tuple in the place of `x`."
    require(1 <= len(parts) <= 3, rule, f"{len(parts)} things in one", way_out)
    x, y, *_ = (*parts, None)
    return mapped(_to_numpy, x), mapped(_to_numpy, y)


def _to_numpy(leaf: Any) -> Any:
    if keras.ops.is_tensor(leaf):
        return np.asarray(keras.ops.convert_to_numpy(leaf))
    if hasattr(leaf, "detach"):  # a tensor of torch, on another backend
        leaf = leaf.detach().cpu()
    return np.asanyarray(leaf) if hasattr(leaf, "__array__") else leaf


def _is_arrays(data: Any) -> bool:
    """Returns whether it is all examples at once, in a structure as Keras has."""
    if len(getattr(data, "shape", None) or ()) and hasattr(data, "__getitem__"):
        return True  # cut along its first axis, in memory or on disk
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
    lengths = {array.shape[0] for array in leaves(data)}
    rule = "The arrays of `data` must have the same number of examples."
    way_out = "Inputs and labels are `(x, y)`, several inputs a list or a dict."
    require(len(lengths) == 1, rule, sorted(lengths), way_out)

    def at(number: int) -> Any:
        return mapped(lambda a: a[number * size : (number + 1) * size], data)

    return Batches(-(-lengths.pop() // size), at)


# Not `keras.tree`: on torch it leaves reference cycles behind, which keep a batch alive
# until the next garbage collection, and batches may be large (Keras 3.15.1).


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


def leaves(structure: Any) -> list[Any]:
    """Returns the leaves of dicts, lists and tuples, but those that are None.

    Example:
    >>> leaves({"a": 1, "b": [2, (3, None)]})
    [1, 2, 3]
    """
    every: list[Any] = []
    mapped(every.append, structure)
    return every


# the target of each batch ------------------------------------------------------------


def target_of(target: Any, batch: DatasetBatch, start: int) -> Any:
    """Returns the target of one batch.

    Args:
        target: What the caller gave, for the whole dataset.
        batch: The batch.
        start: The number of its first example in the dataset.

    Raises:
        TargetError: If there are no labels, or no class for these examples.
    """
    if isinstance(target, str) and target == "label":
        return class_score(_classes(batch[1]))
    x, y = batch
    if isinstance(target, Target):
        stop = start + next((len(a) for a in leaves(x) if np.ndim(a)), 0)
        try:
            return target.for_rows(np.arange(start, stop))
        except IndexError:
            raise TargetError(
                "`target` must be one class for all examples of the dataset, or one "
                f"for each. Received: {target}, which has none for the examples from "
                f"{start} to {stop - 1}. If `data` has labels, "
                "`target='label'` explains each example's own."
            ) from None
    if isinstance(target, str):
        raise TargetError(
            "`target` must be a target, 'label', a function of the outputs, or a "
            f"function of `x` and `y`. Received: {target!r}."
        )
    # A function that could do with one argument is one of the outputs.
    return target(x, y) if _takes(target, x, y) and not _takes(target, x) else target


def _takes(function: Any, *arguments: Any) -> bool:
    """Returns whether it is a function that can be called with these arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError):  # not callable, or silent on what it takes
        return False
    return True


def _classes(y: Any) -> np.ndarray:
    what = "none" if y is None else f"a {type(y).__name__}"
    if isinstance(y, np.ndarray):
        if y.ndim == 2 and y.shape[1] > 1:  # one-hot
            return np.asarray(y.argmax(axis=1))
        labels = y.reshape(len(y), -1)[:, 0] if y.ndim <= 2 else y
        if labels.ndim == 1 and np.all(labels == np.round(labels)):
            return labels.astype("int64")
        what = f"labels of shape {y.shape} and dtype {y.dtype}"
    raise TargetError(
        "`target='label'` needs one array of classes with each batch: whole numbers, "
        f"one per example, or one-hot. Received: {what}. Let `data` give `(x, y)`, or "
        "write the target as a function: "
        "`target=lambda x, y: gradwatch.class_score(…)`."
    )
