"""TensorBoard's event files: their messages, their frames, and appending to them.

A record in a file is its length (8 bytes), the masked CRC-32C of these, the data, and
the masked CRC-32C of the data (4 bytes each, little-endian): the TFRecord format of
TensorFlow. The data is a serialised `Event`.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import socket
import struct
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")

_COUNTER = itertools.count()
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)


@cache
def protos() -> Any:
    """Returns a namespace of the messages and constants that an event is made of.

    TensorBoard is imported when the first message is made, so that `import gradwatch`
    stays fast and works without it. After that it is one look-up: an import statement
    costs microseconds each time, and a step makes hundreds of messages.
    """
    from types import SimpleNamespace

    from tensorboard.compat.proto import (
        event_pb2,
        summary_pb2,
        tensor_pb2,
        tensor_shape_pb2,
        types_pb2,
    )

    modules = (event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2)
    return SimpleNamespace(**{k: v for m in modules for k, v in vars(m).items()})


def doubles(array: Any) -> Any:
    """Returns an array of float64 as a tensor message."""
    p = protos()
    shape, data = _shape(array.shape), array.tobytes()
    return p.TensorProto(dtype=p.DT_DOUBLE, tensor_shape=shape, tensor_content=data)


@cache
def _shape(shape: tuple[int, ...]) -> Any:
    """Returns the message of a shape. Copied into the message of each tensor."""
    message = protos().TensorShapeProto
    return message(dim=[message.Dim(size=size) for size in shape])


def strings(*values: bytes) -> Any:
    """Returns a vector of strings as a tensor message."""
    p, shape = protos(), _shape((len(values),))
    return p.TensorProto(dtype=p.DT_STRING, tensor_shape=shape, string_val=values)


def value(tag: str, tensor: Any, plugin: str | None = None, **metadata: Any) -> Any:
    """Returns the value of a tag; with metadata if a plugin is named."""
    made = protos().Summary.Value(tag=tag, tensor=tensor)
    if plugin is not None:
        made.metadata.plugin_data.plugin_name = plugin
        made.metadata.plugin_data.content = metadata.pop("content", b"")
        made.metadata.data_class = protos().DATA_CLASS_TENSOR
        for key, fact in metadata.items():
            setattr(made.metadata, key, fact)
    return made


def event(step: int, **what: Any) -> bytes:
    """Returns an event of now as one record, ready to be appended to a file."""
    return frame(
        protos().Event(wall_time=time.time(), step=step, **what).SerializeToString()
    )


def frame(data: bytes) -> bytes:
    """Returns data as one record of a file.

    Example:
    >>> import io
    >>> list(unframe(io.BytesIO(frame(b"one") + frame(b"two"))))
    [b'one', b'two']
    """
    length = struct.pack("<Q", len(data))
    header = length + _FOOTER.pack(_masked_crc(length))
    return b"".join((header, data, _FOOTER.pack(_masked_crc(data))))


class TornError(Exception):
    """The records of a file end before the file does.

    Attributes:
        last: True if it is an unfinished record and nothing follows: what a process
            that was killed, or one that is writing just now, leaves behind.
    """

    def __init__(self, *, last: bool) -> None:
        super().__init__("unfinished" if last else "damaged")
        self.last = last


def unframe(stream: BinaryIO) -> Iterator[bytes]:
    """Yields the data of each record, in order.

    Raises:
        TornError: At the first record that is unfinished or does not fit its checksums.
    """
    while header := stream.read(_HEADER.size):
        if len(header) < _HEADER.size:
            raise TornError(last=True)
        length, crc = _HEADER.unpack(header)
        if _masked_crc(header[:8]) != crc:  # else `length` may be anything
            raise TornError(last=False)
        data, footer = stream.read(length), stream.read(_FOOTER.size)
        if len(footer) < _FOOTER.size:
            raise TornError(last=True)
        if _FOOTER.unpack(footer) != (_masked_crc(data),):
            raise TornError(last=False)
        yield data


def _masked_crc(data: bytes) -> int:
    import google_crc32c

    crc: int = google_crc32c.value(data)
    # TensorFlow stores it rotated and shifted, because the checksum of data that holds
    # its own checksum says nothing.
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class EventFile:
    """An event file of its own in a directory; whole records are appended, or nothing.

    Every method but `close` may raise `OSError`. The file is made by `prepare`, and a
    process makes a new one each time: what follows a torn record is lost to every
    reader, and another process may be writing to the file that was there before.

    Args:
        directory: The directory for the file; made with it.

    Attributes:
        directory: The directory for the file, as an absolute path.
        is_empty: True as long as nothing was appended to the current file.
        tags: The tags whose metadata the file holds. Its users add to it.
        started: True if the file says where the run starts. Its users set it.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)
        # Absolute, so that a training script may change its working directory.
        with contextlib.suppress(OSError):  # unless that was deleted
            self.directory = Path(os.path.abspath(directory))
        self.is_empty, self.started = True, False
        self.tags: set[str] = set()
        self._path = self.directory
        self._descriptor: int | None = None
        self._process = 0

    def prepare(self) -> None:
        """Makes a new file, unless the current one can still be appended to."""
        if self._is_current():
            return
        self.close()
        path = self.directory / _file_name()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, _FLAGS, 0o666)
        except ValueError as error:  # a name that no file system knows
            raise OSError(errno.EINVAL, str(error)) from error
        self._path, self._process = path, os.getpid()
        self.is_empty, self.started, self.tags = True, False, set()

    def _is_current(self) -> bool:
        """Returns whether the file is open, still there, and of this process."""
        forked = self._process != os.getpid()  # the parent writes to that one
        if self._descriptor is not None and not forked:
            with contextlib.suppress(OSError):
                return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        return False

    def append(self, events: bytes) -> None:
        """Appends framed events with one `write`, or none of them.

        One `write` of an append-only file is not interleaved with those of others, and
        a process that is killed after it has lost nothing. If it fails, or writes less
        (the disk is full), the file is cut back to where it was, so that the records
        that follow later can be read.
        """
        if self._descriptor is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self.is_empty:
            events = event(0, file_version="brain.Event:2") + events
        start = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, events) < len(events):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except BaseException:  # also an interrupt: half a record must not stay
            try:
                os.ftruncate(self._descriptor, start)
            except OSError:
                self.close()  # It is torn: whatever comes next goes into a new one.
            raise
        self.is_empty = False

    def close(self) -> None:
        """Closes the file; `prepare` makes a new one. An empty file is deleted."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Some network disks report what was lost only when the file is closed.
            with contextlib.suppress(OSError):
                os.close(descriptor)
            if self.is_empty and self._process == os.getpid():
                with contextlib.suppress(OSError):
                    os.unlink(self._path)

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
