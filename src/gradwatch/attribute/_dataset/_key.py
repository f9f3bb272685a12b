"""The key of a call: a short text per argument, the same in every process.

A store remembers the key it was begun with, and a call with another one is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import re
import types
import zlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from ..._errors import require
from ...select import walk
from ._batches import leaves


def call_key(model: Any, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns the key of a call: a text for the model, and one per argument."""
    texts = {name: describe(value) for name, value in arguments.items()}
    return {"model": _model_hash(model), **texts}


def check_same_call(before: Mapping[str, str], now: Mapping[str, str], to: str) -> None:
    """Raises if a store was made by another call.

    Raises:
        GradwatchError: Names the arguments that differ.
    """
    names = [n for n in sorted({*before, *now}) if before.get(n) != now.get(n)]
    told = {"model": "its weights or layers"}
    for name in names:
        there, here = (key.get(name, "not given") for key in (before, now))
        told.setdefault(name, f"there {there}, here {here}")
    texts = [f"`{name}` ({told[name]})" for name in names]
    rule = "`to` must be a store that was made in the same way, to go on with it; this "
    way_out = "Give another path, or `resume=False` to begin again."
    require(not names, f"{rule}one differs in {', '.join(texts)}.", to, way_out)


def describe(value: Any) -> str:
    """Returns a text that tells a value from others, also in another process.

    A function is known by its code and its defaults, not by the variables it closes
    over; an object without a `repr` of its own, by its class.

    Example:
    >>> describe([1, "a"]), describe({"steps": 4})
    ("(1, 'a')", "(('steps', 4))")
    >>> describe(np.eye(2)) == describe(np.zeros((2, 2)))
    False
    """
    if isinstance(value, types.FunctionType):
        function: Any = inspect.unwrap(value)
        # A newer gradwatch may compute the same with other code.
        if function.__module__.startswith("gradwatch."):
            return str(function.__name__)
        text = describe([function.__code__, function.__defaults__])
        return f"{function.__name__} {_hash(text)}"
    if isinstance(value, keras.Layer):
        return str(getattr(value, "path", value.name))
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        array = np.asarray(keras.ops.convert_to_numpy(value))
        return f"array of shape {array.shape} {checksum(array):08x}"
    name, parts = type(value).__qualname__, value
    if isinstance(value, list | tuple | Mapping):
        name = ""
        parts = sorted(value.items(), key=repr) if isinstance(value, Mapping) else value
    elif isinstance(value, frozenset):
        parts = sorted(value, key=repr)  # whose order differs from process to process
    elif isinstance(value, types.CodeType):
        parts = [value.co_code, value.co_names, value.co_consts]
    elif isinstance(value, functools.partial):
        parts = [value.func, value.args, value.keywords]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        # An address in memory differs from process to process.
        return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return f"{name}({', '.join(map(describe, parts))})"


def _model_hash(model: Any) -> str:
    """Hashes the weights and the kinds of layers, but no names.

    Keras counts names up: the same model, built again in one process, has others.
    """
    state = hashlib.blake2b(digest_size=8)
    for node in walk(model).layers.values():
        name = getattr(getattr(node.layer, "activation", None), "__name__", "")
        state.update(f"{type(node.layer).__name__} {name}\n".encode())
    for weight in model.weights:
        array = np.asarray(keras.ops.convert_to_numpy(weight.value))
        state.update(f"{array.dtype.str}{array.shape}".encode() + _bytes(array))
    return state.hexdigest()


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def checksum(batch: Any) -> int:
    """Returns the CRC-32 of the arrays in a structure."""
    crc = 0
    for array in leaves(batch):
        if isinstance(array, np.ndarray):
            crc = zlib.crc32(f"{array.dtype.str}{array.shape}".encode(), crc)
            crc = zlib.crc32(_bytes(array), crc)
    return crc


def _bytes(array: np.ndarray) -> bytes:
    if array.dtype.kind in "OSUV":  # text, or what has no buffer
        return repr(array.tolist()).encode()
    return array.tobytes()
