"""The attributions of a whole dataset, read from disk as far as they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import GradwatchError, counted, told_as
from .._result import Attribution
from ._layout import attribution, columns
from ._npz import NpzStore
from ._parquet import ParquetStore
from ._store import Store, Whole
from ._summary import summary
from ._zarr import ZarrStore

STORES: tuple[type[Store], ...] = (NpzStore, ZarrStore, ParquetStore)


class AttributedDataset:
    """What `attribute_dataset` wrote: as many attributions as the dataset has examples.

    Nothing is in memory but what is asked for.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> data = np.random.default_rng(0).normal(size=(10, 3))
    >>> made = gw.attribute.attribute_dataset(
    ...     model, data, gw.class_score(1), to="why.npz", batch_size=4
    ... )
    >>> d = gw.attribute.AttributedDataset.open("why.npz")
    >>> len(d), d.num_batches, d.values.shape, d[3].values.shape
    (10, 3, (10, 3), (1, 3))
    >>> [len(batch) for batch in d.batches()]
    [4, 4, 2]
    >>> d
    <AttributedDataset of 10 examples: class_score(1) by integrated_gradients, why.npz>

    Attributes:
        path: The store.
        complete: Whether it was finished. If not, it holds the batches done so far, and
            the same call of `attribute_dataset` goes on with it.
        method: The name of the method.
        target: What was explained, in words.
        layer: The layer asked for, in words; None for the inputs of the model.
        settings: What was used; where batches differ, of the first one.
    """

    def __init__(self, path: Path, found: Whole) -> None:
        words = found.head["words"]
        self.path = path
        self.complete = found.complete
        self.method: str = words["method"]
        self.target: str = words["target"]
        self.layer: str | None = words["layer"]
        self.settings: dict[str, Any] = words["settings"]
        self._words = words
        self._columns = found.columns
        self._batches = found.batches
        self._ends = np.cumsum([batch["rows"] for batch in found.batches])

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> AttributedDataset:
        """Opens a store, finished or not.

        Raises:
            GradwatchError: When there is none.
        """
        store = store_at(path, "path")
        with told_as("path", "to"):
            found = store.opened()
        if found is None:
            raise GradwatchError(
                "`path` must be a store that `attribute_dataset` wrote. Received: "
                f"{os.fspath(path)!r}, where there is none."
            )
        return cls(store.path, found)

    # what there is --------------------------------------------------------------------

    @property
    def values(self) -> Any:
        """All attributions: an array on disk, or a dict of them by name.

        A `.npz` store gives memory-mapped NumPy arrays, a `.zarr` store Zarr arrays;
        all give NumPy arrays for `values[10:20]` and for `np.asarray(values)`.
        """
        return self._part("values", "places")

    @property
    def activation(self) -> Any:
        """What was attributed to, in the same form; None when it was not kept."""
        return self._part("activation", "places")

    @property
    def inputs(self) -> Any:
        """The inputs of the model, in the same form; None when they were not kept."""
        return self._part("inputs", "sources")

    @property
    def score(self) -> Any:
        """The target's value for each example, on disk."""
        return self._columns["score"]

    @property
    def delta(self) -> Any:
        """How far each example is from adding up; None where that is not known."""
        return self._columns.get("delta")

    @property
    def baseline_score(self) -> Any:
        """The target's value at each baseline; None where there is none."""
        return self._columns.get("baseline_score")

    @property
    def names(self) -> list[str]:
        """The addresses of the tensors attributed to."""
        return [place["name"] for place in self._words["places"]]

    @property
    def num_batches(self) -> int:
        """How many batches it was made of."""
        return len(self._batches)

    @property
    def nonfinite(self) -> int:
        """How many examples have a value that is not finite."""
        return sum(batch["nonfinite"] for batch in self._batches)

    @property
    def nonfinite_batches(self) -> list[int]:
        """The numbers of the batches that such examples are in."""
        return [n for n, batch in enumerate(self._batches) if batch["nonfinite"]]

    def _part(self, part: str, group: str) -> Any:
        names = [place["name"] for place in self._words[group]]
        keys = columns(part, names)
        if keys[0] not in self._columns:
            return None
        if len(keys) == 1:
            return self._columns[part]
        return {n: self._columns[key] for n, key in zip(names, keys, strict=True)}

    def __repr__(self) -> str:
        so_far = "" if self.complete else ", not complete"
        return (
            f"<AttributedDataset of {counted(len(self), 'example')}: {self.target} by "
            f"{self.method}, {self.path}{so_far}>"
        )

    # some of it -----------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, examples: int | slice | Sequence[int]) -> Attribution:
        """Returns the attribution of one example or some; the batch axis stays."""
        if isinstance(examples, slice):
            start, stop, step = examples.indices(len(self))
            if step == 1:
                return self._rows([slice(start, max(start, stop))])
            examples = range(start, stop, step)
        elif isinstance(examples, int | np.integer):
            examples = [int(examples)]
        elif np.asarray(examples).dtype == bool:
            examples = self._chosen(np.asarray(examples))
        numbers = [self._number(int(number)) for number in examples]
        return self._rows([slice(n, n + 1) for n in numbers] or [slice(0, 0)])

    def __iter__(self) -> Iterator[Attribution]:
        """Gives each example by itself, reading a batch at a time."""
        for batch in self.batches():
            yield from (batch[number] for number in range(len(batch)))

    def batches(self) -> Iterator[Attribution]:
        """Gives the batches as they were made, one after the other."""
        start = 0
        for stop in self._ends.tolist():
            yield self._rows([slice(start, stop)])
            start = stop

    def _chosen(self, mask: np.ndarray) -> list[int]:
        if mask.shape != (len(self),):
            raise IndexError(
                f"A mask must have one value for each of the "
                f"{counted(len(self), 'example')}. Received: shape {mask.shape}."
            )
        return [int(number) for number in np.flatnonzero(mask)]

    def _number(self, number: int) -> int:
        if not -len(self) <= number < len(self):
            raise IndexError(
                f"There are {counted(len(self), 'example')}. Received: {number}."
            )
        return number % len(self)

    def _rows(self, slices: Sequence[slice]) -> Attribution:
        arrays = {}
        for name, column in self._columns.items():
            parts = [np.array(column[rows]) for rows in slices]
            arrays[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        places = {self._batch(rows) for rows in slices}
        settings = dict(self.settings)
        if len(places) == 1:
            settings |= self._batches[places.pop()].get("settings", {})
        return attribution(self._words, arrays, settings)

    def _batch(self, rows: slice) -> int:
        """Returns the number of the batch that these rows begin in."""
        return min(
            int(np.searchsorted(self._ends, rows.start, "right")), self.num_batches - 1
        )

    def summary(self) -> dict[str, Any]:
        """Returns numbers about all examples; reads the store once, batch by batch.

        Example:
        >>> import gradwatch as gw, keras, numpy as np
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Flatten()])
        >>> d = gw.attribute.attribute_dataset(
        ...     model, np.eye(3), gw.class_score(1), to="why.npz"
        ... )
        >>> found = d.summary()
        >>> found["examples"], found["score"]["max"], found["values"]["inputs"]["max"]
        (3, 1.0, 1.0)
        """
        return summary(self)


def store_at(path: str | os.PathLike[str], argument: str) -> Store:
    """Returns the store of the kind that the path says.

    Raises:
        GradwatchError: When it says none.
    """
    if not isinstance(path, str | os.PathLike):
        raise GradwatchError(
            f"`{argument}` must be a path that ends in .npz, .zarr or .parquet. "
            f"Received: {path!r}."
        )
    path = Path(path)
    for kind in STORES:
        if path.suffix.lower() == kind.suffix:
            return kind(path)
    raise GradwatchError(
        f"`{argument}` must end in .npz, .zarr or .parquet. Received: {str(path)!r}."
    )
