"""The binary form of numbers for a browser: a line of JSON, then the arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
_LIMITS = np.finfo(np.float32)
_TYPES = {"float32": "f4", "float64": "f8", "uint8": "u1", "int32": "i4"}


def packed(
    facts: Mapping[str, Any], arrays: Arrays, *, few_digits: bool = False
) -> bytes:
    r"""Returns facts and arrays as bytes.

    The first four bytes are the length of the JSON that follows. It names each array,
    its type, its shape and where it starts behind the JSON, aligned to eight bytes.

    Example:
    >>> import numpy as np
    >>> data = packed({"step": 3}, {"norms": np.array([0.5], np.float32)})
    >>> data[4:15], data[-8:]
    (b'{"step": 3,', b'\x00\x00\x00?\x00\x00\x00\x00')

    Args:
        facts: Values that JSON has.
        arrays: Arrays by name.
        few_digits: True if four digits of each number are enough: see `decimals`. An
            array with a number that a float32 cannot hold is sent in full.
    """
    parts, described, at = [], {}, 0
    for name, array in arrays.items():
        short = few_digits and array.dtype == np.float64
        if short:  # can a float32 hold each number that is finite, and not zero?
            size = np.abs(array[np.isfinite(array) & (array != 0)])
            short = bool(((size >= _LIMITS.tiny) & (size <= _LIMITS.max)).all())
        if array.dtype == np.int64:
            array = array.astype(np.float64)  # steps: exact to 2 ** 53
        data = (decimals(array) if short else np.ascontiguousarray(array)).tobytes()
        described[name] = {
            "type": "d4" if short else _TYPES[array.dtype.name],
            "shape": list(array.shape),
            "at": at,
        }
        padding = -len(data) % 8
        parts += [data, b"\0" * padding]
        at += len(data) + padding
    head = json.dumps({**facts, "arrays": described}, allow_nan=False).encode()
    head += b" " * (-(len(head) + 4) % 8)
    return b"".join([len(head).to_bytes(4, "little"), head, *parts])


def decimals(numbers: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Returns four significant digits of each number, in three bytes.

    No more are ever shown, and they are rounded as they are shown: a report is a third
    of the size, and its numbers are still those of the run. All low bytes of the digits
    come first, then all high bytes (with the sign), then the powers of ten, plus 131: 0
    is for zero and NaN, and 1 to 9 are the first digit of 10,000 to 99,999, of which
    five are shown. Equal things stand together, which is what deflating likes.

    Example:
    >>> import numpy as np
    >>> decimals(np.array([0.0123456, -750.0])).tolist()  # 1235e-5 and -7500e-1
    [211, 76, 4, 157, 126, 130]
    """
    flat = np.asarray(numbers, np.float64).ravel()
    usual = np.isfinite(flat) & (flat != 0)
    size = np.abs(np.where(usual, flat, 1.0))
    power = np.floor(np.log10(size)).astype(np.int64) - 3
    digits = _digits(size, power)
    # The logarithm of a power of ten may be off by a hair, and so may rounding up be.
    for wrong, by in ((digits >= 10_000, 1), (digits < 1_000, -1)):
        power = np.where(wrong, power + by, power)
        digits = np.where(wrong, _digits(size, power), digits)
    # Rounded up, the very largest ones would be infinite on the other side.
    digits = np.where(power == 35, np.minimum(digits, 3402), digits)
    whole = np.round(np.minimum(size, 1e6)).astype(np.int64)
    five = (whole >= 10_000) & (whole <= 99_999)
    digits = np.where(five, whole % 10_000, digits)
    digits = np.where(usual, digits | np.where(flat < 0, 0x8000, 0), np.isnan(flat))
    powers = np.where(usual, np.where(five, whole // 10_000, power + 131), 0)
    return np.concatenate([digits & 0xFF, digits >> 8, powers]).astype(np.uint8)


def _digits(size: NDArray[np.float64], power: NDArray[np.int64]) -> NDArray[np.int64]:
    # By a power of ten that is exact, where there is one: dividing rounds once.
    up, down = 10.0 ** np.maximum(-power, 0), 10.0 ** np.maximum(power, 0)
    return np.round(size * up / down).astype(np.int64)
