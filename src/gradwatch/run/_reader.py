"""The reader of a run: from event files to a column store, once or again and again.

`open_run` reads to the end. A live view calls `read` again: each byte is decoded once.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._errors import arg, counted, quoted
from ._codec import PLUGIN, Meta, metadata, record_of, values_of
from ._error import RunError
from ._event_file import TornError, protos, unframe
from ._store import Store

_BUFFER = 4 * 2**20  # bytes that are read at once
_MARK = f"{PLUGIN}/".encode()
_SMALL = 256  # bytes: an event that starts a session has no more


@dataclass(slots=True)
class _File:
    """The state of reading one event file.

    Attributes:
        offset: Offset of the next record; the end of a file that is damaged.
        damaged: True if nothing more can be read.
        ours: True if it holds anything of a run; other programs' files do not.
        start: A start of a session that counts once the file is known to be ours.
        known: The metadata of the tags.
    """

    offset: int = 0
    damaged: bool = False
    ours: bool = False
    start: int | None = None
    known: dict[str, Meta] = field(default_factory=dict)


class Reader:
    """Reads the event files of a directory into a store, and later what is new.

    Example:
    >>> from gradwatch.run import Layout, Record, RunWriter
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> layout = Layout(("a",), ("weight",), (6,))
    >>> row = blank((1, len(COLUMNS)))
    >>> reader = Reader("runs/f")
    >>> with RunWriter("runs/f") as writer:
    ...     for step in range(2):
    ...         writer.write(Record(step, layout, row, None, {}))
    ...         everything = reader.read()
    ...         print(reader.store.steps.tolist())
    [0]
    [0, 1]

    Args:
        directory: The directory of the run. It need not exist yet.
        window: Minimum number of the newest records to keep (default: all).
        hold: True to keep histograms in memory, so that they can be read when the files
            are gone. A live view leaves them in the file: they are most of it.

    Attributes:
        directory: The directory of the run.
        store: The numbers that were read.
        deleted: True once files that had been read were deleted or cut short; their
            numbers are then no longer in the store.
    """

    def __init__(
        self, directory: str | Path, *, window: int | None = None, hold: bool = False
    ) -> None:
        self.directory = Path(directory)
        self.store = Store(window)
        self.deleted = False
        self._hold = hold
        self._files: dict[Path, _File] = {}
        self._complete = False

    @property
    def share(self) -> float:
        """Share of the bytes in the files that has been read, 0 to 1."""
        if self._complete:
            return 1.0
        read = sum(file.offset for file in self._files.values())
        return min(1.0, read / max(1, sum(_sizes(self.directory).values())))

    def read(self, seconds: float = float("inf")) -> bool:
        """Reads what is new, for about that long; returns whether that was all.

        Files of others are passed over. A record that was cut off at the end of a file
        may be one that is being written: it is looked at again next time. Where a file
        that was read is gone or shorter now, the directory is read from the start.
        """
        sizes, files = _sizes(self.directory), self._files.items()
        if any(sizes.get(path, -1) < file.offset for path, file in files):
            self._files.clear()
            self.store.clear()
            self.deleted = True
        until, self._complete = time.monotonic() + seconds, False
        for path, size in sizes.items():
            file = self._files.setdefault(path, _File())
            more = file.offset < size and not file.damaged
            if more and not self._read_file(path, file, until):
                return False
        self._complete = True
        return True

    def _read_file(self, path: Path, file: _File, until: float) -> bool:
        """Reads the next records of a file; returns whether the time was enough."""
        with path.open("rb", buffering=_BUFFER) as stream:
            stream.seek(file.offset)
            try:
                for data in unframe(stream):
                    file.ours |= _MARK in data
                    # Most of the others are curves for TensorBoard's own tabs.
                    if len(data) <= _SMALL or _MARK in data:
                        self._take(data, path, file)
                    file.offset = stream.tell()
                    if time.monotonic() > until:
                        return False
            except TornError as torn:
                if not torn.last:
                    file.damaged = True
                    stream.seek(file.offset)
                    rest = stream.read()
                    file.ours |= _MARK in rest
                    if file.ours:
                        warnings.warn(
                            f"A record in '{path}' is damaged, at byte "
                            f"{file.offset:,}: the last {counted(len(rest), 'byte')} "
                            "of the file are left out.",
                            RuntimeWarning,
                            stacklevel=4,
                        )
                    file.offset += len(rest)
        return True

    def check(self) -> None:
        """Refuses a directory in which no run was found.

        Raises:
            RunError: If there is no such directory, or no run in it.
        """
        if not any(file.ours for file in self._files.values()):
            raise RunError(_no_run_in(self.directory))

    def _take(self, data: bytes, path: Path, file: _File) -> None:
        """Adds the values of one event to the store."""
        event = protos().Event.FromString(data)
        if event.session_log.status == protos().SessionLog.START:
            file.start = int(event.step)
        if not file.ours:
            return
        file.known.update(metadata(event.summary.value, path))
        if file.start is not None:
            self.store.restart(file.start)
            file.start = None
        later = partial(_counts_in_file, path, file.offset, file.known)
        values = [*values_of(event, file.known)]
        self.store.take(int(event.step), values, None if self._hold else later)


def _counts_in_file(
    path: Path, offset: int, known: dict[str, Meta]
) -> NDArray[np.int64]:
    """Returns the histograms of a record, read from its file again."""
    with path.open("rb") as stream:
        stream.seek(offset)
        event = protos().Event.FromString(next(unframe(stream)))
    _, counts = record_of(0, values_of(event, known))
    if counts is None:
        raise OSError(f"'{path}' has changed.")
    return counts()


def _no_run_in(directory: Path) -> str:
    out = "Give the directory that the monitor was given."
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        return (
            f"{arg('directory')} must be the directory of a run. Received: "
            f"{str(directory)!r}, which {what}. {out}"
        )
    paths = list(_sizes(directory))
    held = "which is empty"
    if paths:
        files = counted(len(paths), "event file")
        held = f"which holds {files} of other programs, such as {paths[0].name!r}"
    elif names := sorted(path.name for path in directory.iterdir()):
        held = f"which holds {quoted(names, 4)}, and no event file"
    below = sorted({path.parent for path in directory.glob("*/*tfevents*.gradwatch")})
    if below:
        runs = quoted([str(path) for path in below], 3)
        out = f"There are runs below it: {runs}."
    return (
        f"{arg('directory')} must hold a run of gradwatch. Received: "
        f"{str(directory)!r}, {held}. {out}"
    )


def _sizes(directory: Path) -> dict[Path, int]:
    """Returns the event files by name, which begins with the time, and their sizes."""
    sizes = {}
    with contextlib.suppress(OSError):  # not there yet, or just deleted
        for path in sorted(directory.iterdir()):
            if "tfevents" in path.name and path.is_file():
                sizes[path] = path.stat().st_size
    return sizes


def as_path(path: str | os.PathLike[str], argument: str) -> Path:
    """Returns the path; raises an error that names the argument if it is none."""
    try:
        return Path(path)
    except TypeError:
        raise RunError(
            f"{arg(argument)} must be a path. Received: {path!r}. Give a string or a "
            "`pathlib.Path`."
        ) from None
