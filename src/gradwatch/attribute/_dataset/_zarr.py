"""A Zarr store: a directory of compressed chunks, which grows as batches come."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._journal import check_format
from ._layout import Arrays, Kind
from ._store import Store, Whole, missing, not_ours

WORDS = "gradwatch"


class ZarrStore(Store):
    """A group of arrays, in chunks of the first batch; its attributes say what it is.

    The attribute `complete` tells other tools whether all is there.
    """

    suffix = ".zarr"

    def require(self) -> None:
        """Raises when zarr is not there, or is older than 3."""
        try:
            import zarr
        except ImportError:
            raise missing("zarr", "zarr", self.suffix) from None
        if int(zarr.__version__.partition(".")[0]) < 3:
            raise missing(f"zarr 3 (not {zarr.__version__})", "zarr", self.suffix)

    def whole(self) -> Whole | None:
        """Returns the finished store; chunks are read when they are asked for."""
        if not self.path.exists():
            return None
        self.require()
        import zarr

        try:
            group = zarr.open_group(self.path, mode="r")
            attributes = dict(group.attrs)
        except (OSError, ValueError):
            # A directory with nothing in it may be one that we were about to fill.
            if self.path.is_dir() and not any(self.path.iterdir()):
                return None
            raise not_ours(self.path) from None
        if WORDS not in attributes:
            raise not_ours(self.path)
        if not attributes.get("complete"):
            return None
        words: Any = attributes[WORDS]
        check_format(words, self.path)
        columns = {name: group[name] for name in words["columns"]}
        return Whole(words, words["batches"], columns, ended=words["ended"])

    def columns(self) -> Grown:
        """Returns the arrays themselves."""
        self.require()
        journal = self.journal
        return Grown(self.path, journal.kinds, journal.head)

    def finish(self) -> None:
        """Writes the attributes, of which `complete` is one, at once."""
        import zarr

        group = zarr.open_group(self.path, mode="r+")
        head, words = self.journal.head["words"], self.words()
        told = {name: head[name] for name in ("method", "target", "layer", "settings")}
        # What a killed process was about to write.
        for file in self.path.rglob("*.partial"):
            file.unlink()
        group.attrs.put({**told, "complete": True, WORDS: words})
        self.journal.remove()

    def discard(self) -> None:
        """Deletes the directory."""
        shutil.rmtree(self.path, ignore_errors=True)


class Grown:
    """Columns as arrays of a Zarr group."""

    def __init__(
        self, path: Path, kinds: Mapping[str, Kind], head: Mapping[str, Any]
    ) -> None:
        self.path, self.kinds, self.head = path, kinds, head

    def whole(self) -> int:
        """Returns how many rows all columns have."""
        import zarr

        if not self.path.exists():
            return 0
        group = zarr.open_group(self.path, mode="r")
        return min(group[n].shape[0] if n in group else 0 for n in self.kinds)

    def cut(self, rows: int) -> None:
        """Forgets what is behind so many rows."""
        import zarr

        if self.path.exists():
            group = zarr.open_group(self.path, mode="r+")
            for name, kind in self.kinds.items():
                if name in group and group[name].shape[0] > rows:
                    group[name].resize((rows, *kind.shape))

    def append(self, arrays: Arrays, start: int) -> None:
        """Writes further rows; each chunk takes the place of its older self at once."""
        import zarr

        group = zarr.open_group(self.path, mode="a")
        if "complete" not in group.attrs:
            group.attrs.put({"complete": False, WORDS: dict(self.head)})
        for name, kind in self.kinds.items():
            array = arrays[name]
            stop = start + len(array)
            if name not in group:
                group.create_array(
                    name,
                    shape=(0, *kind.shape),
                    chunks=(len(array), *kind.shape),
                    dtype=np.dtype(kind.dtype),
                    dimension_names=_dimensions(name, kind),
                )
            group[name].resize((stop, *kind.shape))
            group[name][start:stop] = array

    def read(self, rows: int) -> dict[str, Any]:
        """Returns the columns as far as they count."""
        import zarr

        group = zarr.open_group(self.path, mode="r")
        return {name: Head(group[name], rows) for name in self.kinds}


class Head:
    """The first rows of an array, the others of which do not count."""

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


def _dimensions(name: str, kind: Kind) -> list[str]:
    return ["example", *(f"{name}_{axis}" for axis in range(1, len(kind.shape) + 1))]
