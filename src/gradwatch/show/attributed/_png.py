"""Pixels as a PNG file, which any page can embed. Needs no library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    r"""Returns a PNG of pixels between 0 and 1: `[height, width, 3]`, or 4 with alpha.

    W3C, *Portable Network Graphics* (third edition), sections 5.2 and 11.2.

    Example:
    >>> png(np.zeros((2, 3, 3)))[:4]
    b'\x89PNG'
    """
    numbers = np.round(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    height, width, channels = numbers.shape
    kind = {3: 2, 4: 6}[channels]  # truecolour, without and with alpha
    # Each line begins with its filter: 0, none.
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    lines[:, 1:] = numbers.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    file = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", header), (b"IDAT", body), (b"IEND", b"")):
        check = struct.pack(">I", zlib.crc32(name + data))
        file += struct.pack(">I", len(data)) + name + data + check
    return file


def data_url(pixels: np.ndarray) -> str:
    """Returns the PNG as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()
