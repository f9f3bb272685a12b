"""The journal of a store that is being written: which batches are whole."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._errors import GradwatchError
from ._layout import FORMAT, Kind

HEAD, LINES = "head.json", "batches.jsonl"


class Journal:
    """A directory beside the store: what is being done, and a line per batch done.

    The line of a batch is written when its numbers are, with one write. So whatever
    ends the process, a line that is whole stands for numbers that are whole, and what
    has no line does not count. Nothing waits for the disk: what a killed process has
    written is safe with the system, and after a loss of power the sizes tell.

    Args:
        path: The store itself; the directory is called as it is, and `.parts`.
    """

    def __init__(self, path: Path) -> None:
        self.directory = path.with_name(path.name + ".parts")
        self.head: dict[str, Any] = {}
        self.batches: list[dict[str, Any]] = []
        self.ended = False
        """Whether the data had no more; else it was stopped."""
        self.rows = 0
        """How many examples are done."""
        self._file: int | None = None

    @property
    def kinds(self) -> dict[str, Kind]:
        """The columns of the store."""
        return kinds_of(self.head)

    def read(self) -> bool:
        """Reads what is there, without changing it; False if there is nothing."""
        try:
            self.head = json.loads((self.directory / HEAD).read_text("utf-8"))
            lines = (self.directory / LINES).read_bytes()
        except (OSError, ValueError):
            return False
        check_format(self.head, self.directory)
        self._forget()
        for line in lines.splitlines(keepends=True):
            try:
                found = json.loads(line)
            except ValueError:  # Torn: the process ended while it was written.
                break
            if not line.endswith(b"\n"):
                break
            if "end" in found:
                self.ended = bool(found["end"])
                break
            self._count(found)
        return True

    def _forget(self) -> None:
        self.batches, self.rows, self.ended = [], 0, False

    def _count(self, batch: dict[str, Any]) -> None:
        self.batches.append(batch)
        self.rows += batch["rows"]

    def fit(self, rows: int) -> None:
        """Forgets batches that need more rows than there are."""
        while self.rows > rows:
            self.rows -= self.batches.pop()["rows"]
            self.ended = False

    @property
    def exists(self) -> bool:
        """Whether a store was begun, and is not finished."""
        return (self.directory / HEAD).exists()

    @property
    def held(self) -> bool:
        """Whether it is open for writing, for this process only."""
        return self._file is not None

    def begin(self, head: Mapping[str, Any]) -> None:
        """Starts a new one, of no batches."""
        self.directory.mkdir(exist_ok=True)
        self.lock()
        self.head = {"format": FORMAT, **head}
        self._forget()
        self.trim()
        draft = self.directory / (HEAD + ".new")
        draft.write_text(json.dumps(self.head), "utf-8")
        draft.replace(self.directory / HEAD)

    def lock(self) -> None:
        """Opens it for writing, for this process only.

        Raises:
            GradwatchError: When another process writes to the same store.
        """
        if self._file is not None:
            return
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = os.open(self.directory / LINES, flags, 0o666)
        with contextlib.suppress(ImportError):  # Windows has none.
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.close()
                raise GradwatchError(
                    "`to` must be a store that nobody else writes to. Received: "
                    f"{self.directory.stem!r}, which is being written. Wait for the "
                    "other one to end, or give another path."
                ) from None

    def trim(self) -> None:
        """Cuts off what does not count: a torn line, batches that are not whole."""
        text = b"".join(_line(batch) for batch in self.batches)
        text += _line({"end": True}) if self.ended else b""
        os.ftruncate(self._open, len(text))
        os.lseek(self._open, len(text), os.SEEK_SET)

    @property
    def _open(self) -> int:
        if self._file is None:
            raise RuntimeError("The journal is not open for writing.")
        return self._file

    def append(self, batch: Mapping[str, Any]) -> None:
        """Notes that one more batch is whole."""
        self._write(batch)
        self._count(dict(batch))

    def end(self) -> None:
        """Notes that the data had no more."""
        if not self.ended:
            self._write({"end": True})
        self.ended = True

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            write_all(self._open, _line(line))
        except BaseException:
            with contextlib.suppress(OSError):
                self.trim()
            raise

    def close(self) -> None:
        """Lets others write."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def remove(self) -> None:
        """Deletes it: the store is whole, or is not wanted."""
        self.close()
        # The lines first: without them, nothing that is left counts.
        for name in (LINES, HEAD):
            (self.directory / name).unlink(missing_ok=True)
        if self.directory.is_dir():
            for file in self.directory.iterdir():
                if file.suffix in (".column", ".new"):
                    file.unlink()
            with contextlib.suppress(OSError):  # Somebody else's files are theirs.
                self.directory.rmdir()


def check_format(head: Mapping[str, Any], path: Path) -> None:
    """Raises when a newer gradwatch wrote it."""
    if head["format"] > FORMAT:
        raise GradwatchError(
            f"`path` must be a store of format {FORMAT} or older. Received: "
            f"{str(path)!r} of format {head['format']}. A newer gradwatch reads it."
        )


def kinds_of(head: Mapping[str, Any]) -> dict[str, Kind]:
    """Returns the columns that a store says it has."""
    return {
        name: Kind(dtype, tuple(shape))
        for name, (dtype, shape) in head["columns"].items()
    }


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Writes everything, or raises: a disk that is full may take a part."""
    view = memoryview(data)
    while view:
        written = os.write(descriptor, view)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view = view[written:]


def _line(batch: Mapping[str, Any]) -> bytes:
    return json.dumps(batch, separators=(",", ":")).encode() + b"\n"
