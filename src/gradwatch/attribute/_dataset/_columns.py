"""Columns that grow on disk: plain numbers, one file for each, one row per example."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ._journal import write_all
from ._layout import Arrays, Kind


class Columns(Protocol):
    """Where the rows of a store go, as they come."""

    def whole(self) -> int:
        """Returns how many rows all columns have."""

    def cut(self, rows: int) -> None:
        """Forgets what is behind so many rows."""

    def append(self, arrays: Arrays, start: int) -> None:
        """Writes further rows, the first of them as row `start`."""

    def read(self, rows: int) -> Mapping[str, Any]:
        """Returns the first rows of each column, to be read when they are asked for."""


class Files:
    """Columns as files of plain numbers, in a directory.

    Nothing but the numbers is in a file: to add rows is to write behind the last one,
    and to forget rows is to cut the file.
    """

    def __init__(self, directory: Path, kinds: Mapping[str, Kind]) -> None:
        self.kinds = kinds
        self.paths = {
            name: directory / f"{number}.column" for number, name in enumerate(kinds)
        }

    def whole(self) -> int:
        """Returns how many rows all columns have."""
        return min(
            (path.stat().st_size if path.exists() else 0) // self.kinds[name].row_bytes
            for name, path in self.paths.items()
        )

    def cut(self, rows: int) -> None:
        """Forgets what is behind so many rows."""
        for name, path in self.paths.items():
            if path.exists():
                os.truncate(path, rows * self.kinds[name].row_bytes)

    def append(self, arrays: Arrays, start: int) -> None:
        """Writes further rows, over whatever is behind those that count."""
        for name, path in self.paths.items():
            flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
            file = os.open(path, flags, 0o666)
            try:
                os.lseek(file, start * self.kinds[name].row_bytes, os.SEEK_SET)
                write_all(file, arrays[name].reshape(-1).view("uint8").data)
            finally:
                os.close(file)

    def read(self, rows: int) -> dict[str, np.ndarray]:
        """Returns the columns as arrays that are mapped from disk."""
        return {
            name: np.memmap(path, kind.dtype, "r", shape=(rows, *kind.shape))
            for (name, path), kind in zip(
                self.paths.items(), self.kinds.values(), strict=True
            )
        }
