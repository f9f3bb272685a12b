"""A store of NumPy's own kind: one `.npz` file that `np.load` reads."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.lib import format as npy

from ._journal import check_format
from ._store import JoinedStore, Whole, not_ours

WORDS = "words"
_LOCAL_HEADER = 30  # bytes before the name, in a zip file


class NpzStore(JoinedStore):
    """Members are not compressed, so that they can be mapped instead of read."""

    suffix = ".npz"

    def require(self) -> None:
        """NumPy is always there."""

    def join(self, draft: Path) -> None:
        """Writes each column behind its header, a piece at a time."""
        journal, files = self.journal, self.columns()
        with open(draft, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as zip:
                with _member(zip, WORDS) as member:
                    npy.write_array(member, np.array(json.dumps(self.words())))
                for name, path in files.paths.items():
                    kind = files.kinds[name]
                    head = {
                        "descr": kind.dtype,
                        "fortran_order": False,
                        "shape": (journal.rows, *kind.shape),
                    }
                    with _member(zip, name) as member, open(path, "rb") as rows:
                        npy.write_array_header_1_0(member, head)
                        shutil.copyfileobj(rows, member, 2**20)
            file.flush()
            os.fsync(file.fileno())

    def whole(self) -> Whole | None:
        """Returns the finished store, its columns mapped."""
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                words = json.loads(str(file[WORDS]))
            names = list(words["columns"])
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            raise not_ours(self.path) from None
        check_format(words, self.path)
        columns = {name: mapped(self.path, name) for name in names}
        return Whole(words, words["batches"], columns, ended=words["ended"])


def _member(file: zipfile.ZipFile, name: str) -> IO[bytes]:
    # A date of its own would make two files of the same numbers differ.
    info = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
    return file.open(info, "w", force_zip64=True)


def mapped(path: Path, name: str) -> np.ndarray:
    """Returns a member of an uncompressed `.npz` file, mapped from disk."""
    with zipfile.ZipFile(path) as file:
        start = file.getinfo(name + ".npy").header_offset
    with open(path, "rb") as file:
        # The sizes of the name and the extra field are in the header itself: those in
        # the directory at the end may differ.
        file.seek(start)
        sizes = struct.unpack("<HH", file.read(_LOCAL_HEADER)[26:])
        file.seek(start + _LOCAL_HEADER + sum(sizes))
        npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file)
        place = file.tell()
    found: Any = np.memmap(path, dtype, "r", offset=place, shape=shape)
    return cast(np.ndarray, found)
