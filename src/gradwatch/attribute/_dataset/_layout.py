"""What a store holds: arrays by name, one row per example, and words about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._errors import GradwatchError, quoted
from .._place import Place
from .._result import Attribution

KEEP = ("values", "score", "delta", "baseline_score", "activation", "inputs")
ALWAYS = ("values", "score")
FORMAT = 1
"""Of the store; grows when an older gradwatch could not read it."""

Arrays = dict[str, np.ndarray]


def checked_keep(keep: Any) -> tuple[str, ...]:
    """Returns what is kept of each batch, in our order.

    Raises:
        GradwatchError: When there is no such part, or one is missing without which
            there is no attribution.
    """
    several = isinstance(keep, Iterable) and not isinstance(keep, str)
    asked = tuple(keep) if several else (keep,)
    if not set(ALWAYS) <= set(asked) <= set(KEEP):
        raise GradwatchError(
            f"`keep` must hold {quoted(ALWAYS)}, and may hold {quoted(KEEP[2:])}. "
            f"Received: {asked!r}."
        )
    return tuple(name for name in KEEP if name in asked)


def arrays_of(found: Attribution, keep: Sequence[str]) -> Arrays:
    """Returns what is kept of one batch, by the names it has in the store."""
    parts: dict[str, list[tuple[str, np.ndarray]]] = {
        "values": [(p.name, p.values) for p in found.places],
        "activation": [(p.name, p.activation) for p in found.places],
        "inputs": [(p.name, p.values) for p in found.sources],
    }
    arrays: Arrays = {}
    for part in keep:
        if part in parts:
            names = columns(part, [name for name, _ in parts[part]])
            arrays |= zip(names, (array for _, array in parts[part]), strict=True)
        elif getattr(found, part) is not None:
            arrays[part] = getattr(found, part)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def columns(part: str, names: Sequence[str]) -> list[str]:
    """Returns the names of the arrays of one part: `values`, or one for each place.

    Example:
    >>> columns("values", ["inputs"]), columns("values", ["conv", "block/conv@2"])
    (['values'], ['values.conv', 'values.block.conv@2'])
    """
    if len(names) == 1:
        return [part]
    # A slash would be a folder in a Zarr store.
    plain = [name.replace("/", ".") for name in names]
    if len(set(plain)) < len(plain):
        plain = [str(number) for number in range(len(names))]
    return [f"{part}.{name}" for name in plain]


def words_of(found: Attribution) -> dict[str, Any]:
    """Returns what is the same for all batches, as JSON has it."""
    return {
        **{name: getattr(found, name) for name in ("method", "target", "layer")},
        "settings": plain(found.settings),
        "places": [_place(place) for place in found.places],
        "sources": [_place(place) for place in found.sources],
    }


def _place(place: Place) -> dict[str, Any]:
    shape = [int(length) for length in place.activation.shape[1:]]
    return {"name": place.name, "channels": place.channels, "shape": shape}


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings as JSON has them."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        value = value.item() if isinstance(value, np.generic) else value
        known = isinstance(value, bool | int | float | str | type(None))
        found[name] = value if known else str(value)
    return found


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of the numbers of a column, and the shape of one row."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> Kind:
        """Returns the kind of an array whose first axis is the batch."""
        return cls(array.dtype.str, array.shape[1:])

    @property
    def row_bytes(self) -> int:
        """How much room a row takes."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=int))


def check_kinds(arrays: Arrays, known: Mapping[str, Kind], batch: int) -> None:
    """Raises when a batch does not fit below those before it."""
    for name, kind in known.items():
        found = Kind.of(arrays[name]) if name in arrays else None
        if found != kind:
            now = f"shape {found.shape} of {found.dtype}" if found else "none"
            raise GradwatchError(
                "`data` must give examples of one shape, so that the store can hold "
                f"them as one array. Received: batch {batch}, whose {name!r} are of "
                f"{now}, where those before are of shape {kind.shape} of "
                f"{kind.dtype}. Pad them to one length, or write a store for each."
            )


def attribution(
    words: Mapping[str, Any], arrays: Mapping[str, np.ndarray], settings: Any
) -> Attribution:
    """Makes the noun again, of some rows of a store."""
    score = arrays["score"]
    sources = _places(words, arrays, "sources", "inputs", {})
    inputs = {place.name: place.values for place in sources}
    return Attribution(
        tuple(_places(words, arrays, "places", "values", inputs)),
        tuple(sources),
        words["method"],
        words["target"],
        score,
        layer=words["layer"],
        delta=arrays.get("delta"),
        baseline_score=arrays.get("baseline_score"),
        settings=settings,
    )


def _places(
    words: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    group: str,
    part: str,
    inputs: Mapping[str, np.ndarray],
) -> list[Place]:
    names = [place["name"] for place in words[group]]
    keys = columns(part, names)
    others = columns("activation", names)
    found = []
    for place, key, other in zip(words[group], keys, others, strict=True):
        if key not in arrays:  # The inputs were not kept.
            continue
        values = arrays[key]
        activation = values if group == "sources" else arrays.get(other)
        if activation is None:
            activation = inputs.get(place["name"])
        if activation is None:
            # Its shape says what kind of place it is; its numbers are not known.
            unknown = np.array(np.nan, values.dtype)
            activation = np.broadcast_to(unknown, (len(values), *place["shape"]))
        found.append(Place(place["name"], values, activation, place["channels"]))
    return found
