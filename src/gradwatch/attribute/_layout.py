"""The columns of an attribution on disk: to arrays by name, and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import quoted, require
from ._place import Place

if TYPE_CHECKING:
    from ._result import Attribution

KEEP = ("values", "score", "delta", "baseline_score", "activation", "inputs")
REQUIRED = ("values", "score")
WORDS = ("method", "target", "layer")
"""The attributes of an attribution that are words."""


def checked_keep(keep: Any) -> tuple[str, ...]:
    """Returns the parts that are kept of each batch, in the order of `KEEP`.

    Raises:
        GradwatchError: If there is no such part, or a required one is missing.
    """
    several = isinstance(keep, Iterable) and not isinstance(keep, str)
    parts = tuple(keep) if several else (keep,)
    rule = f"`keep` must hold {quoted(REQUIRED)}, and may hold {quoted(KEEP[2:])}."
    require(set(REQUIRED) <= set(parts) <= set(KEEP), rule, parts)
    return tuple(part for part in KEEP if part in parts)


def column_names(part: str, names: Sequence[str]) -> list[str]:
    """Returns the columns of one part: `values`, or one for each tensor.

    Example:
    >>> column_names("values", ["inputs"])
    ['values']
    >>> column_names("values", ["conv", "block/conv@2"])
    ['values.conv', 'values.block.conv@2']
    >>> column_names("values", ["a/b", "a.b"])
    ['values.a.b_2', 'values.a.b']
    """
    if len(names) == 1:
        return [part]
    columns: dict[str, str] = {}
    for name in sorted(names):
        # A slash would be a folder in a Zarr group; without it two may be the same.
        column = own = f"{part}.{name.replace('/', '.')}"
        numbers = itertools.count(2)
        while column in columns.values():
            column = f"{own}_{next(numbers)}"
        columns[name] = column
    return [columns[name] for name in names]


def to_columns(result: Attribution, keep: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the parts of an attribution that are kept, by column."""
    tensors = {
        "values": {p.name: p.values for p in result.places},
        "activation": {p.name: p.activation for p in result.places},
        "inputs": {p.name: p.values for p in result.sources},
    }
    columns: dict[str, np.ndarray] = {}
    for part in keep:
        arrays = tensors.get(part)
        if arrays is not None:
            names = column_names(part, list(arrays))
            columns |= zip(names, arrays.values(), strict=True)
        elif getattr(result, part) is not None:
            columns[part] = getattr(result, part)
    return columns


def header_of(result: Attribution) -> dict[str, Any]:
    """Returns what is the same for all batches, as JSON has it."""

    def tensors(places: Sequence[Place]) -> list[dict[str, Any]]:
        return [
            {"name": p.name, "channels": p.channels, "shape": [*p.activation.shape[1:]]}
            for p in places
        ]

    return {
        **{name: getattr(result, name) for name in WORDS},
        "settings": [plain_settings(result.settings)],
        "places": tensors(result.places),
        "sources": tensors(result.sources),
    }


def from_columns(
    header: Mapping[str, Any], columns: Mapping[str, np.ndarray], settings: Any
) -> dict[str, Any]:
    """Returns the arguments of the attribution of some rows."""
    inputs = by_name(header, columns, "inputs")
    values = by_name(header, columns, "values")
    known = inputs | by_name(header, columns, "activation")

    def place(tensor: Mapping[str, Any], array: np.ndarray) -> Place:
        activation = known.get(tensor["name"])
        if activation is None:
            # The shape says which axes there are; the numbers are not known.
            nan = np.array(np.nan, array.dtype)
            activation = np.broadcast_to(nan, (len(array), *tensor["shape"]))
        return Place(tensor["name"], array, activation, tensor["channels"])

    sources = [source for source in header["sources"] if source["name"] in inputs]
    return {
        **{name: header[name] for name in WORDS},
        **{name: columns.get(name) for name in ("score", "delta", "baseline_score")},
        "places": tuple(place(t, values[t["name"]]) for t in header["places"]),
        "sources": tuple(place(t, inputs[t["name"]]) for t in sources),
        "settings": settings,
    }


def by_name(
    header: Mapping[str, Any], columns: Mapping[str, Any], part: str
) -> dict[str, Any]:
    """Returns the columns of one part by the name of their tensor, if they are kept."""
    tensors = header["sources" if part == "inputs" else "places"]
    names = [tensor["name"] for tensor in tensors]
    pairs = zip(names, column_names(part, names), strict=True)
    return {name: columns[column] for name, column in pairs if column in columns}


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as JSON has them."""

    def plain(value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        known = isinstance(value, bool | int | float | str | type(None))
        return value if known else str(value)

    return {name: plain(value) for name, value in settings.items()}
