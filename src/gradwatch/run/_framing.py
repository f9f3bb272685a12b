"""The frames of an event file: each record with its length and two checksums.

A record is its length (8 bytes), the masked CRC-32C of these, the data, and the masked
CRC-32C of the data (4 bytes each, little-endian): the TFRecord format of TensorFlow.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
OVERHEAD = _HEADER.size + _FOOTER.size
"""Bytes that a record takes in a file, beside its data."""


def frame(data: bytes) -> bytes:
    """Returns one record, ready to be appended to a file.

    Example:
    >>> list(unframe(frame(b"one") + frame(b"two")))
    [b'one', b'two']
    """
    length = struct.pack("<Q", len(data))
    header = length + _FOOTER.pack(_masked_crc(length))
    return b"".join((header, data, _FOOTER.pack(_masked_crc(data))))


class TornError(Exception):
    """The records of a file end before the file does.

    Attributes:
        offset: Where the first unreadable record starts.
        last: Whether it is an unfinished record and nothing follows: what a process
            that was killed, or one that is writing just now, leaves behind.
    """

    def __init__(self, offset: int, *, last: bool) -> None:
        super().__init__(offset)
        self.offset = offset
        self.last = last


def unframe(buffer: bytes) -> Iterator[bytes]:
    """Yields the data of each record, in order.

    Raises:
        TornError: At the first record that is unfinished or does not fit its checksums.
    """
    start, end = 0, len(buffer)
    while start < end:
        if end - start < _HEADER.size:
            raise TornError(start, last=True)
        length, crc = _HEADER.unpack_from(buffer, start)
        if _masked_crc(buffer[start : start + 8]) != crc:
            raise TornError(start, last=False)
        begin = start + _HEADER.size
        stop = begin + length
        if stop + _FOOTER.size > end:
            raise TornError(start, last=True)
        data = buffer[begin:stop]
        if _masked_crc(data) != _FOOTER.unpack_from(buffer, stop)[0]:
            raise TornError(start, last=False)
        yield data
        start = stop + _FOOTER.size


def _masked_crc(data: bytes) -> int:
    import google_crc32c

    crc: int = google_crc32c.value(data)
    # TensorFlow stores it rotated and shifted, because the checksum of data that holds
    # its own checksum says nothing.
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
