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

from ..._errors import GradwatchError
from ...select import walk
from ._batches import leaves

LONGEST = 60
"""Maximum length of the text of an argument; longer ones end in their hash."""


def call_key(model: Any, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns the key of a call: a text for the model, and one per argument."""
    key = {"model": _model_hash(model)}
    for name, value in arguments.items():
        text = describe(value)
        short = len(text) <= LONGEST
        key[name] = text if short else f"{text[: LONGEST - 20]}… {_hash(text)}"
    return key


def check_same_call(before: Mapping[str, str], now: Mapping[str, str], to: str) -> None:
    """Raises if a store was made by another call.

    Raises:
        GradwatchError: Names the arguments that differ.
    """
    names = [n for n in sorted({*before, *now}) if before.get(n) != now.get(n)]
    if not names:
        return
    told = {"model": "its weights or layers"}
    for name in names:
        there, here = (key.get(name, "not given") for key in (before, now))
        told.setdefault(name, f"there {there}, here {here}")
    texts = [f"`{name}` ({told[name]})" for name in names]
    raise GradwatchError(
        "`to` must be a store that was made in the same way, to go on with it. "
        f"Received: {to!r}, which differs in {', '.join(texts)}. Give another path, or "
        "`resume=False` to begin again."
    )


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
        code = [_code(function.__code__), describe(function.__defaults__)]
        return f"{function.__name__} {_hash(repr(code))}"
    if isinstance(value, keras.Layer):
        return str(getattr(value, "path", value.name))
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        array = np.asarray(keras.ops.convert_to_numpy(value))
        return f"array of shape {array.shape} {checksum(array):08x}"
    name, parts = type(value).__qualname__, value
    if isinstance(value, list | tuple | Mapping):
        name = ""
        parts = sorted(value.items(), key=repr) if isinstance(value, Mapping) else value
    elif isinstance(value, functools.partial):
        parts = [value.func, value.args, value.keywords]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        # An address in memory differs from process to process.
        return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return f"{name}({', '.join(map(describe, parts))})"


def _code(code: types.CodeType) -> list[Any]:
    constants = [
        _code(c)
        if isinstance(c, types.CodeType)
        # The order of a set of texts differs from process to process.
        else sorted(map(repr, c))
        if isinstance(c, frozenset)
        else repr(c)
        for c in code.co_consts
    ]
    return [code.co_code, code.co_names, constants]


def _model_hash(model: Any) -> str:
    """Hashes the weights and the kinds of layers, but no names.

    Keras counts names up: the same model, built again in one process, has others.
    """
    state = hashlib.blake2b(digest_size=8)
    for node in walk(model).layers.values():
        activation = getattr(node.layer, "activation", None)
        name = getattr(activation, "__name__", "")
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
