"""The other side of the wire, as the browser reads it."""

import json

import numpy as np


def unpacked(data):
    """Returns the facts and the arrays: the inverse of `packed`."""
    length = int.from_bytes(data[:4], "little")
    facts = json.loads(data[4 : 4 + length])
    arrays = {}
    for name, array in facts.pop("arrays").items():
        if array["type"] == "d4":
            size = 3 * int(np.prod(array["shape"]))
            start = 4 + length + array["at"]
            short = np.frombuffer(data, np.uint8, size, start)
            arrays[name] = from_decimals(short).reshape(array["shape"])
            continue
        kind = np.dtype(f"<{array['type']}")
        arrays[name] = np.frombuffer(
            data, kind, int(np.prod(array["shape"])), 4 + length + array["at"]
        ).reshape(array["shape"])
    return facts, arrays


def from_decimals(data):
    """Returns the numbers: the inverse of `decimals`, up to the digits left out."""
    low, high, powers = data.reshape(3, -1).astype(np.int64)
    digits = low | (high << 8)
    value = (digits & 0x7FFF) * 10.0 ** (powers - 131)
    value = np.where(powers < 10, powers * 10_000 + (digits & 0x7FFF), value)
    value = np.where(digits & 0x8000, -value, value)
    special = np.where(digits == 0, 0.0, np.nan)
    return np.where(powers == 0, special, value).astype(np.float32)
