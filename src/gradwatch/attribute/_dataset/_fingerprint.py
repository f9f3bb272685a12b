"""Whether two calls ask the same question: the digests of what they were given."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import types
import zlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from ..._errors import GradwatchError
from ...select import walk
from ._structure import leaves

Digests = dict[str, list[str]]
"""For each argument its digest, and the argument in a few words."""


def digests(model: Any, arguments: Mapping[str, Any]) -> Digests:
    """Returns what tells this call from others."""
    found = {name: [digest(a), _short(a)] for name, a in arguments.items()}
    found["model"] = [_model(model), f"{getattr(model, 'name', '')!r}"]
    return found


def check_same(before: Mapping[str, list[str]], now: Digests, path: str) -> None:
    """Raises when the batches of a store were made in another way.

    Raises:
        GradwatchError: Names the arguments that differ.
    """
    unlike = [
        name
        for name in sorted({*before, *now})
        if _code(before, name) != _code(now, name)
    ]
    if not unlike:
        return

    def told(name: str) -> str:
        if name == "model":
            return "`model` (its weights or layers)"
        old, new = (
            side[name][1] if name in side else "not given" for side in (before, now)
        )
        return f"`{name}` (there {old}, here {new})" if old != new else f"`{name}`"

    raise GradwatchError(
        "`to` must be a store that was made in the same way, to go on with it. "
        f"Received: {path!r}, which differs in {', '.join(map(told, unlike))}. Give "
        "another path, or `resume=False` to begin again."
    )


def _code(side: Mapping[str, list[str]], name: str) -> str | None:
    return side[name][0] if name in side else None


def _model(model: Any) -> str:
    """Digests the weights and the kinds of layers, but no names.

    Keras counts names up: the same model, built again in one process, has others.
    """
    known = hashlib.blake2b(digest_size=16)
    for node in walk(model).layers.values():
        act = getattr(node.layer, "activation", None)
        kind = f"{type(node.layer).__name__} {getattr(act, '__name__', '')}\n"
        known.update(kind.encode())
    for weight in model.weights:
        _add_array(known, np.asarray(keras.ops.convert_to_numpy(weight.value)))
    return known.hexdigest()


def digest(thing: Any) -> str:
    """Returns the same for the same thing, also in another process.

    Example:
    >>> digest([1, "a"]) == digest([1, "a"]) != digest([1, "b"])
    True
    >>> digest(np.eye(2)) == digest(np.zeros((2, 2)))
    False
    """
    known = hashlib.blake2b(digest_size=16)
    _add(known, thing)
    return known.hexdigest()


def _add(known: Any, thing: Any, within: frozenset[int] = frozenset()) -> None:
    # Functions that hold themselves, or each other, would go round for ever.
    thing = None if id(thing) in within else thing
    known.update(f"<{type(thing).__qualname__}>".encode())
    if hasattr(thing, "shape") and hasattr(thing, "dtype"):
        _add_array(known, np.asarray(keras.ops.convert_to_numpy(thing)))
    elif isinstance(thing, Mapping):
        for key in sorted(thing, key=repr):
            _add(known, key, within)
            _add(known, thing[key], within)
    elif isinstance(thing, list | tuple):
        for item in thing:
            _add(known, item, within)
    elif isinstance(thing, types.FunctionType):
        _add_function(known, thing, within | {id(thing)})
    elif (parts := _parts(thing)) is not None:
        _add(known, parts, within)
    else:
        known.update(_words(thing).encode())


def _parts(thing: Any) -> list[Any] | None:
    """Returns what a thing is made of, if that tells all."""
    match thing:
        case types.CodeType():
            return [thing.co_code, thing.co_names, thing.co_consts]
        case functools.partial():
            return [thing.func, thing.args, thing.keywords]
        case re.Pattern():
            return [thing.pattern, thing.flags]
        case types.MethodType():
            return [thing.__func__, thing.__self__]
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return [getattr(thing, field.name) for field in dataclasses.fields(thing)]
    return None


def _add_function(
    known: Any, function: types.FunctionType, within: frozenset[int]
) -> None:
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:  # one of our methods: what wraps them is no part of it
        _add(known, wrapped, within)
        return
    held = []
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            held.append(None)
    # Ours go by their names: a newer gradwatch may have written them differently.
    ours = function.__module__.startswith("gradwatch.")
    _add(known, function.__qualname__ if ours else function.__code__)
    _add(known, [held, function.__defaults__], within)


def _add_array(known: Any, array: np.ndarray) -> None:
    known.update(f"{array.dtype.str}{array.shape}".encode())
    known.update(_bytes(array))


def _bytes(array: np.ndarray) -> Any:
    if array.dtype.kind in "OSUV":  # text; or bytes that are no numbers to a buffer
        return repr(array.tolist()).encode()
    return np.ascontiguousarray(array).reshape(-1).view("uint8").data


def _words(thing: Any) -> str:
    if isinstance(thing, keras.Layer):
        return str(getattr(thing, "path", thing.name))
    if isinstance(thing, type):
        return f"{thing.__module__}.{thing.__qualname__}"
    text = repr(thing)
    # An address in memory is another one in the next process.
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _short(thing: Any) -> str:
    if hasattr(thing, "shape") and hasattr(thing, "dtype"):
        return f"an array of shape {tuple(thing.shape)}"
    if callable(thing):
        return str(getattr(thing, "__name__", type(thing).__name__))
    plain = isinstance(thing, bool | int | float | str | tuple | type(None))
    text = repr(thing) if plain else str(thing)
    return text if len(text) <= 60 else text[:57] + "…"


def checksum(batch: Any) -> int:
    """Returns a number that another batch hardly has: of its arrays, not its names."""
    found = 0
    for array in leaves(batch):
        if isinstance(array, np.ndarray):
            found = zlib.crc32(f"{array.dtype.str}{array.shape}".encode(), found)
            found = zlib.crc32(_bytes(array), found)
    return found
