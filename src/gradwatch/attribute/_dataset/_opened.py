"""The attributions of a whole dataset, read from disk as far as they are asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import counted, renamed, require
from .._layout import WORDS, by_name, from_columns
from .._result import NUMBERS, Attribution, rows_of, single
from .._store import replacing
from ._export import write_npz, write_parquet
from ._store import DatasetStore

_WRITERS = {".npz": write_npz, ".parquet": write_parquet}
_TENSORS = ("values", "activation", "inputs")
_SUMMARY = ("mean", "mean_abs", "min", "max")


class AttributedDataset:
    """The attributions of a dataset, as `attribute_dataset` wrote them.

    Only what is asked for is in memory.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> data = np.random.default_rng(0).normal(size=(10, 3))
    >>> made = gw.attribute.attribute_dataset(
    ...     model, data, gw.class_score(1), to="why.zarr", batch_size=4
    ... )
    >>> d = gw.attribute.AttributedDataset.open("why.zarr")
    >>> len(d), d.num_batches, d.values.shape, d[3].values.shape
    (10, 3, (10, 3), (1, 3))
    >>> [len(batch) for batch in d.batches()]
    [4, 4, 2]
    >>> d
    <AttributedDataset of 10 examples: class_score(1) by integrated_gradients, why.zarr>

    Attributes:
        path: The store, a Zarr group.
        complete: True if it was finished. If not, it holds the batches done so far, and
            the same call of `attribute_dataset` goes on with it.
        method: The name of the method.
        target: What was explained, in words.
        layer: The layer attributed to, in words; None for the inputs of the model.
        settings: Settings of the method; where batches differ, those of the first one.
        names: The addresses of the tensors attributed to.
        values: All attributions: a Zarr array, or a dict of them by name.
            `values[10:20]` and `np.asarray(values)` are NumPy arrays.
        activation: The tensors attributed to, in the same form; None if they were not
            kept.
        inputs: The inputs of the model, in the same form; None if they were not kept.
        score: The target's value for each example, on disk.
        delta: The error of completeness of each example; None where it is not defined.
        baseline_score: The target's value at each baseline; None where there is none.
        num_batches: Number of batches it was made of.
        nonfinite: Number of examples with a value that is not finite.
        nonfinite_batches: The numbers of the batches that such examples are in.
    """

    def __init__(self, store: DatasetStore) -> None:
        header, columns, batches = store.header, store.arrays(), store.batches
        self.path = store.path
        self.complete = store.complete
        self.method, self.target, self.layer = (header[name] for name in WORDS)
        self.settings: dict[str, Any] = header["settings"][0]
        self.names = [tensor["name"] for tensor in header["places"]]
        parts = (by_name(header, columns, part) for part in _TENSORS)
        self.values, self.activation, self.inputs = (
            single(arrays) if arrays else None for arrays in parts
        )
        self.score, self.baseline_score, self.delta = map(columns.get, NUMBERS)
        self.num_batches = len(batches)
        self.nonfinite = int(batches[:, 2].sum())
        self.nonfinite_batches = np.flatnonzero(batches[:, 2]).tolist()
        self._header = header
        self._columns = columns
        self._batches = batches
        ends = np.cumsum(batches[:, 0]).tolist()
        self._slices = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> AttributedDataset:
        """Opens a store, finished or not.

        Raises:
            GradwatchError: If there is none.
        """
        with renamed(to="path"):
            store = DatasetStore(path)
        rule = "`path` must be a store that `attribute_dataset` wrote; here is none."
        require(store.rows > 0, rule, os.fspath(path))
        return cls(store)

    def __repr__(self) -> str:
        return (
            f"<AttributedDataset of {counted(len(self), 'example')}: {self.target} by "
            f"{self.method}, {self.path}{'' if self.complete else ', not complete'}>"
        )

    # rows -----------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._slices[-1].stop)

    def __getitem__(self, examples: int | slice | Sequence[int]) -> Attribution:
        """Returns the attribution of one example or some; the batch axis stays."""
        return self._rows(np.arange(len(self))[rows_of(examples, len(self))])

    def __iter__(self) -> Iterator[Attribution]:
        """Yields each example by itself, reading a batch at a time."""
        for batch in self.batches():
            yield from (batch[number] for number in range(len(batch)))

    def batches(self) -> Iterator[Attribution]:
        """Yields the batches as they were made, one after the other."""
        for rows in self._slices:
            yield self._rows(np.arange(rows.start, rows.stop))

    def _rows(self, numbers: np.ndarray) -> Attribution:
        # Each run of neighbours is read at once.
        runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
        slices = [slice(run[0], run[-1] + 1) if len(run) else slice(0) for run in runs]
        columns = {
            name: np.concatenate([np.asarray(column[rows]) for rows in slices])
            for name, column in self._columns.items()
        }
        ends = [rows.stop for rows in self._slices]
        batches = set(np.searchsorted(ends, numbers, "right").tolist())
        # Of examples from several batches, the settings of the first batch of all.
        index = self._batches[batches.pop(), 3] if len(batches) == 1 else 0
        settings = dict(self._header["settings"][int(index)])
        return Attribution(**from_columns(self._header, columns, settings))

    # all of it ------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Returns numbers about all examples; reads the store once, batch by batch.

        Example:
        >>> import gradwatch as gw, keras, numpy as np
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Flatten()])
        >>> d = gw.attribute.attribute_dataset(
        ...     model, np.eye(3), gw.class_score(1), to="why.zarr"
        ... )
        >>> numbers = d.summary()
        >>> numbers["examples"], numbers["score"]["max"]
        (3, 1.0)
        >>> numbers["values"]["inputs"]["max"]
        1.0
        """
        values = by_name(self._header, self._columns, "values")
        return {
            "examples": len(self),
            "batches": self.num_batches,
            "complete": self.complete,
            "nonfinite": self.nonfinite,
            **{part: self._summary(getattr(self, part)) for part in NUMBERS},
            "values": {name: self._summary(array) for name, array in values.items()},
        }

    def _summary(self, column: Any) -> dict[str, float | None]:
        """Returns mean, mean size and range; None where no number is finite."""
        sums = []
        for rows in self._slices if column is not None else ():
            numbers = np.asarray(column[rows])
            n = numbers[np.isfinite(numbers)].astype("float64")
            if n.size:
                sums.append((n.size, n.sum(), np.abs(n).sum(), n.min(), n.max()))
        if not sums:
            return dict.fromkeys(_SUMMARY)
        counts, totals, sizes, lows, highs = zip(*sums, strict=True)
        count = sum(counts)
        figures = sum(totals) / count, sum(sizes) / count, min(lows), max(highs)
        return dict(zip(_SUMMARY, map(float, figures), strict=True))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes a copy for other tools, one batch in memory at a time.

        Example:
        >>> import gradwatch as gw, keras, numpy as np
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Flatten()])
        >>> d = gw.attribute.attribute_dataset(
        ...     model, np.eye(3), gw.class_score(1), to="why.zarr"
        ... )
        >>> d.export("why.npz")
        >>> np.load("why.npz")["values"].shape
        (3, 3)

        Args:
            path: Ends in `.npz`, for `numpy.load`; or in `.parquet` (needs
                `gradwatch[pandas]`): a row per example, a row group per batch, arrays
                as lists whose shape is in the schema.

        Raises:
            GradwatchError: If the path ends in neither.
        """
        target = Path(path)
        rule = f"`path` must end in {' or '.join(_WRITERS)}."
        require(target.suffix in _WRITERS, rule, str(target))
        words = {name: self._header[name] for name in WORDS}
        words |= {"settings": self.settings, "complete": self.complete}
        words["batches"] = self._batches[:, 0].tolist()
        with replacing(target) as file:
            write = _WRITERS[target.suffix]
            write(file, self._columns, self._slices, json.dumps(words))
