"""Structures of arrays: dicts, lists and tuples, as data has them.

Not `keras.tree`: on torch it leaves reference cycles behind, which keep a batch alive
until the next garbage collection, and batches may be large (Keras 3.15.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def leaves(structure: Any) -> Iterator[Any]:
    """Gives what is in a structure, one after the other.

    Example:
    >>> [*leaves({"a": 1, "b": [2, (3, None)]})]
    [1, 2, 3, None]
    """
    if isinstance(structure, Mapping):
        structure = list(structure.values())
    if isinstance(structure, list | tuple):
        for item in structure:
            yield from leaves(item)
    else:
        yield structure


def mapped(function: Callable[[Any], Any], structure: Any) -> Any:
    """Returns the structure with each leaf that is not None replaced.

    Example:
    >>> mapped(str, {"a": 1, "b": [2, (3, None)]})
    {'a': '1', 'b': ['2', ('3', None)]}
    """
    if isinstance(structure, Mapping):
        return {key: mapped(function, item) for key, item in structure.items()}
    if isinstance(structure, list | tuple):
        items = [mapped(function, item) for item in structure]
        if hasattr(structure, "_fields"):
            return type(structure)(*items)
        return items if isinstance(structure, list) else tuple(items)
    return None if structure is None else function(structure)
