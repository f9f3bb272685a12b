"""A store that tools for tables read: one row per example, a row group per batch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._journal import check_format, kinds_of
from ._layout import Kind
from ._store import JoinedStore, Whole, missing, not_ours

WORDS = b"gradwatch"


class ParquetStore(JoinedStore):
    """Values are lists of fixed size; their shape is in the schema, at the field."""

    suffix = ".parquet"

    def require(self) -> None:
        """Raises when pyarrow is not there."""
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise missing("pyarrow", "pandas", self.suffix) from None

    def join(self, draft: Path) -> None:
        """Writes one row group after the other."""
        import pyarrow as pa
        from pyarrow import parquet

        journal = self.journal
        schema = _schema(journal.kinds).with_metadata({WORDS: json.dumps(self.words())})
        columns, start = self.columns().read(journal.rows), 0
        with open(draft, "wb") as file:
            with parquet.ParquetWriter(file, schema) as writer:
                for batch in journal.batches:
                    rows = slice(start, start := start + batch["rows"])
                    arrays = [_cells(columns[name][rows]) for name in columns]
                    table = pa.table(arrays, schema=schema)
                    writer.write_table(table, row_group_size=batch["rows"])
            file.flush()
            os.fsync(file.fileno())

    def whole(self) -> Whole | None:
        """Returns the finished store; rows are read when they are asked for."""
        if not self.path.exists():
            return None
        self.require()
        import pyarrow as pa
        from pyarrow import parquet

        try:
            metadata = parquet.read_schema(self.path).metadata
            words = json.loads(metadata[WORDS])
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            raise not_ours(self.path) from None
        check_format(words, self.path)
        ends = np.cumsum([batch["rows"] for batch in words["batches"]])
        columns = {
            name: Column(self.path, name, kind, ends)
            for name, kind in kinds_of(words).items()
        }
        return Whole(words, words["batches"], columns, ended=words["ended"])


class Column:
    """One column of a Parquet file as an array that is read where it is asked for.

    Attributes:
        shape: As that of the NumPy array which `np.asarray(column)` gives.
        dtype: The type of its numbers.
    """

    def __init__(self, path: Path, name: str, kind: Kind, ends: np.ndarray) -> None:
        self._path, self._name, self._ends = path, name, ends
        self.shape = (int(ends[-1]), *kind.shape)
        self.dtype = np.dtype(kind.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Returns some rows, of those row groups that have them."""
        from pyarrow import parquet

        start, stop, step = rows.indices(len(self))
        first, last = np.searchsorted(
            self._ends, [start, max(stop - 1, start)], "right"
        )
        groups = range(int(first), min(int(last) + 1, len(self._ends)))
        with parquet.ParquetFile(self._path, memory_map=True) as file:
            table = file.read_row_groups(groups, columns=[self._name])
        chunks = table.column(0).combine_chunks()
        flat = chunks.flatten() if self.shape[1:] else chunks
        found = np.asarray(flat.to_numpy(zero_copy_only=False), self.dtype)
        found = found.reshape(-1, *self.shape[1:])
        before = int(self._ends[first - 1]) if first else 0
        return found[start - before : max(stop, start) - before : step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # It is always a new one.
        return np.asarray(self[:], dtype)


def _schema(kinds: Mapping[str, Kind]) -> Any:
    import pyarrow as pa

    fields = []
    for name, kind in kinds.items():
        number = pa.from_numpy_dtype(np.dtype(kind.dtype))
        size = int(np.prod(kind.shape, dtype=int))
        type_ = pa.list_(number, size) if kind.shape else number
        shape = {"shape": json.dumps(kind.shape)} if kind.shape else None
        fields.append(pa.field(name, type_, nullable=False, metadata=shape))
    return pa.schema(fields)


def _cells(array: np.ndarray) -> Any:
    import pyarrow as pa

    flat = pa.array(np.asarray(array).reshape(-1))
    if array.ndim == 1:
        return flat
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(array.shape[1:])))
