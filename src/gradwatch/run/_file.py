"""One event file, to which whole records are appended or nothing is."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import socket
import time
from pathlib import Path

_COUNTER = itertools.count()
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)


class EventFile:
    """A file of its own in a directory, made when it is opened; its methods may raise.

    A process starts a new file each time: what follows a torn record is lost to every
    reader, and another process may be writing to the file that was there before.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path: Path | None = None
        self.is_empty = True
        self._descriptor: int | None = None
        self._process = 0

    def is_current(self) -> bool:
        """Tells whether the file is open, still in its place, and this process's."""
        if self._descriptor is None or self.path is None:
            return False
        if self._process != os.getpid():  # forked: the parent writes to that one
            return False
        try:
            there, mine = os.stat(self.path), os.fstat(self._descriptor)
        except OSError:
            return False
        return os.path.samestat(there, mine)

    def open(self) -> None:
        """Makes the directory if need be, and a new file in it."""
        self.close()
        path = self.directory / _file_name()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, _FLAGS, 0o666)
        except ValueError as error:  # a name that no file system knows
            raise OSError(errno.EINVAL, str(error)) from error
        self.path, self._process, self.is_empty = path, os.getpid(), True

    def append(self, data: bytes) -> None:
        """Writes all of `data` at once; what cannot be written whole is taken back."""
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        start = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, data)
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except BaseException:  # also an interrupt: half a record must not stay
            self._take_back(start)
            raise
        self.is_empty = False

    def _take_back(self, start: int) -> None:
        try:
            if self._descriptor is not None:
                os.ftruncate(self._descriptor, start)
        except OSError:
            self.close()  # The file is torn: whatever comes next goes into a new one.

    def close(self) -> None:
        """Closes the file; further data need `open`."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Some network disks report what was lost only when the file is closed.
            with contextlib.suppress(OSError):
                os.close(descriptor)
            if self.is_empty and self.path is not None and self._process == os.getpid():
                with contextlib.suppress(OSError):
                    os.unlink(self.path)

    def __del__(self) -> None:
        # Only where a writer was never closed; at exit `os` may be gone already.
        if getattr(self, "_descriptor", None) is not None and os is not None:
            self.close()


def _file_name() -> str:
    """Returns a name that no other writer has, and that sorts by time."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    host = re.sub(r"[^\w-]", "_", socket.gethostname()) or "host"
    when = f"{seconds:010d}.{nanoseconds:09d}"
    return f"events.out.tfevents.{when}.{host}.{os.getpid()}.{next(_COUNTER)}.gradwatch"
