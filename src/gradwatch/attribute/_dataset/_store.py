"""The Zarr group that holds the attributions of a dataset, while it grows and after.

A group has one array per column (`values`, `score`, …) with one row per example, an
array `batches` with one row per batch, and attributes that say what it is. Zarr writes
each chunk and each piece of metadata to a new file and renames it, so none is torn.

A batch is written in this order: its settings, if they are new; its rows of each
column; its row of `batches`. Only the last write makes it count. Whatever ends the
process before, the rows in the columns are beyond the end of `batches`, and the next
call writes over them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..._errors import GradwatchError, arg, require
from .._layout import WORDS

FORMAT = 1
"""Version of the layout; grows when an older gradwatch could not read it."""

KEY = "gradwatch"
"""Name of the attribute that only gradwatch reads."""

BATCHES = "batches"
FIELDS = ("rows", "checksum", "nonfinite", "settings")
"""Columns of `batches`; `settings` is an index into the list in the attributes."""


class MissingLibraryError(GradwatchError, ImportError):
    """A library is needed that is not installed; the message names the extra."""


def require_zarr() -> Any:
    """Returns the module.

    Raises:
        MissingExtraError: If it is not installed, or does not write atomically.
    """
    try:
        import zarr

        version = zarr.__version__
    except ImportError:
        version = "none is installed"
    if [int(part) for part in re.findall(r"\d+", version)] >= [3, 1, 3]:
        return zarr
    raise MissingLibraryError(
        "`attribute_dataset` needs zarr 3.1.3 or newer for its store. Received: "
        f'{version}. `pip install "gradwatch[zarr]"` brings it.'
    )


class DatasetStore:
    """One store: what counts of it, and the ways to add to it.

    Attributes:
        path: The directory of the group.
        header: What the store says of itself: the key of the call, the names of the
            columns and tensors, the settings, and whether the data had `ended`.
        batches: One row of `FIELDS` for each batch that counts.
        complete: True if the call that wrote it came to its end.
        begun: True if this object has created the group.
    """

    def __init__(self, to: Any, *, write: bool = False) -> None:
        require_zarr()
        fits = isinstance(to, str | os.PathLike) and Path(to).suffix.lower() == ".zarr"
        rule = f"{arg('to')} must be a path that ends in .zarr; the `export` method of "
        require(fits, f"{rule}the result writes .npz and .parquet files.", to)
        self.path = path = Path(to)
        self.begun = False
        self._lock = contextlib.ExitStack()
        self._group: Any = None
        self.forget()
        rule = "`to` must be in a directory that exists."
        way_out = f"Make {str(path.parent)!r} first."
        require(not write or path.parent.is_dir(), rule, str(path), way_out)
        if path.exists():
            if write:
                self._acquire()
            try:
                self._read("r+" if write else "r")
            except BaseException:
                self.close()
                raise

    def forget(self) -> None:
        """Counts no batch any more; what is on disk stays until the next one."""
        self.header: dict[str, Any] = {"columns": []}
        self.batches = np.zeros((0, len(FIELDS)), "int64")
        self.complete = False

    def _read(self, mode: Any) -> None:
        group: Any = None
        attributes: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            group = require_zarr().open_group(self.path, mode=mode)
            attributes = dict(group.attrs)
        header = attributes.get(KEY, {})
        if not attributes:
            # An empty group, or an empty directory, was about to be filled.
            files = self.path.iterdir() if self.path.is_dir() else [self.path]
            if all(file.name == "zarr.json" for file in files):
                return
        rule = f"{arg('to')} must be a new path, or a store of `attribute_dataset`, "
        received = {"path": str(self.path), "format": header.get("format")}
        fits = bool(header) and header["format"] <= FORMAT
        require(fits, f"{rule}of format {FORMAT}.", received, "Give another path.")
        self._group, self.header = group, header
        self.complete = bool(attributes["complete"])
        if BATCHES in group:
            batches = np.asarray(group[BATCHES][:])
            names = header["columns"]
            lengths = [group[n].shape[0] if n in group else 0 for n in names]
            # A row of zeros was made room for, but never written.
            counts = (batches[:, 0] > 0) & (batches[:, 0].cumsum() <= min(lengths))
            self.batches = batches[: int(np.cumprod(counts).sum())]

    # reading --------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Number of examples that count."""
        return int(self.batches[:, 0].sum())

    @property
    def ended(self) -> bool:
        """True if the data had no more batches."""
        return self.complete and bool(self.header["ended"])

    def arrays(self) -> dict[str, Any]:
        """Returns the columns, as far as they count, to be read where asked for."""
        arrays = {name: self._group[name] for name in self.header["columns"]}
        return {
            name: array if array.shape[0] == self.rows else FirstRows(array, self.rows)
            for name, array in arrays.items()
        }

    # writing --------------------------------------------------------------------------

    def begin(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Deletes what is there, and creates the columns for arrays like these."""
        self.discard()
        self.path.mkdir()
        self._acquire()
        self.begun = True
        self.header = {"format": FORMAT, "ended": False, "columns": [*arrays], **header}
        zarr = require_zarr()
        try:
            self._group = zarr.open_group(self.path, mode="a")
        except zarr.errors.ContainsGroupError:
            # By a write that a call before, which failed, had left to another thread.
            self._group = zarr.open_group(self.path, mode="r+")
        self._describe(complete=False)
        chunk = np.zeros((1024, len(FIELDS)), "int64")
        for name, array in {**arrays, BATCHES: chunk}.items():
            axes = ["example", *(f"{name}_{axis}" for axis in range(1, array.ndim))]
            self._group.create_array(
                name,
                shape=(0, *array.shape[1:]),
                chunks=array.shape,
                dtype=array.dtype,
                dimension_names=["batch", "field"] if name == BATCHES else axes,
            )

    def append(
        self, arrays: Mapping[str, np.ndarray], checksum: int, settings: dict[str, Any]
    ) -> None:
        """Adds one batch.

        Raises:
            GradwatchError: If it does not fit those before it.
        """
        self._check_shapes(arrays)
        known = self.header["settings"]
        if settings not in known or self.complete:
            known += [] if settings in known else [settings]
            self._describe(complete=False)
        for name in self.header["columns"]:
            self._write(name, self.rows, arrays[name])
        bad = np.zeros(len(arrays["score"]), bool)
        for name, array in arrays.items():
            if name == "score" or name.partition(".")[0] == "values":
                bad |= ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        row = (len(bad), checksum, int(bad.sum()), known.index(settings))
        batch = np.array([row], "int64")
        self._write(BATCHES, len(self.batches), batch)
        self.batches = np.concatenate([self.batches, batch])

    def _write(self, name: str, start: int, rows: np.ndarray) -> None:
        array, stop = self._group[name], start + len(rows)
        array.resize((stop, *rows.shape[1:]))
        array[start:stop] = rows

    def _check_shapes(self, arrays: Mapping[str, np.ndarray]) -> None:
        found = {n: f"shape {a.shape[1:]} of {a.dtype}" for n, a in arrays.items()}
        for name in self.header["columns"]:
            column, now = self._group[name], found.get(name, "none")
            wanted = f"shape {column.shape[1:]} of {column.dtype}"
            rule = "`data` must give examples of one shape, to be stored as one array."
            received = f"batch {len(self.batches)}, {name} of {now} after {wanted}"
            way_out = "Pad them to one length, or write a store for each."
            require(now == wanted, rule, received, way_out)

    def finish(self, *, ended: bool) -> None:
        """Marks the store as complete, and deletes what does not count."""
        for name in self.header["columns"]:
            array = self._group[name]
            if array.shape[0] > self.rows:
                array.resize((self.rows, *array.shape[1:]))
        for file in self.path.rglob("*.partial"):  # left by a killed process
            file.unlink()
        self.header["ended"] = ended
        self._describe(complete=True)

    def _describe(self, *, complete: bool) -> None:
        self.complete = complete
        public = {name: self.header[name] for name in WORDS}
        public["settings"] = self.header["settings"][0]
        self._group.attrs.put({**public, "complete": complete, KEY: self.header})

    def discard(self) -> None:
        """Deletes the store."""
        if self.path.exists():
            # Renamed first: a kill must not leave half a store under its name.
            doomed = self.path.with_name(self.path.name + ".deleted")
            shutil.rmtree(doomed, ignore_errors=True)
            self.path.replace(doomed)
            shutil.rmtree(doomed)
        self.close()

    # one writer at a time -------------------------------------------------------------

    def _acquire(self) -> None:
        with contextlib.suppress(ImportError):  # Windows has none.
            import fcntl

            file = os.open(self.path, os.O_RDONLY)
            self._lock.callback(os.close, file)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.close()
                raise GradwatchError(
                    f"{arg('to')} must be a store that no other process is writing. "
                    f"Received: {str(self.path)!r}, which is being written. Wait for "
                    "the other one to end, or give another path."
                ) from None

    def close(self) -> None:
        """Lets others write."""
        self._lock.close()


class FirstRows:
    """The first rows of a Zarr array, where the others do not count."""

    def __init__(self, array: Any, rows: int) -> None:
        self._array = array
        self.shape, self.dtype = (rows, *array.shape[1:]), array.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, step = rows.indices(len(self))
        return np.asarray(self._array[start : max(stop, start) : step])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # It is always a new one.
        return np.asarray(self[:], dtype)
