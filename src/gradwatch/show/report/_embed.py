"""The numbers that a report carries for its charts, in as few bytes as they need."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import KINDS, Store
from ...summarise import BUCKETS, HIGHEST, LOWEST
from ..charts import (
    CURVES,
    QUANTITIES,
    Quantity,
    curves,
    facts_of,
    heat,
    histograms,
    packed,
    vocabulary,
)
from ..charts._quantities import column
from ._told import Told

_CELLS = 380_000  # of all heat maps: about a megabyte on disk
_COUNTS = 900_000  # of all histograms: most are zero
_ALARMS = 7  # NaN and the infinities
_NONE = np.zeros(0)  # the steps of a run that has no record


def embedded(runs: Sequence[Told]) -> str:
    """Returns the numbers of these runs as text for a page."""
    arrays: dict[str, NDArray[Any]] = {}
    facts, spans = [], []
    lines = sum(_lines(told.store) for told in runs)
    count = max(24, _CELLS // max(1, lines))
    for place, told in enumerate(runs):
        store = told.store
        findings = [finding.to_dict() for finding in told.findings]
        found = facts_of(told.name, store, findings=findings)
        spans.append(_heats(f"{place}/", store, count, arrays))
        found["records"] = int((arrays.get(f"{place}/steps/first", _NONE) >= 0).sum())
        found["notes"] = {}  # they stand in the page
        facts.append(found)
        _curves(f"{place}/curves/", store, count, arrays)
        _histograms(f"{place}/histograms/", store, len(runs), arrays)
    whole = {
        "runs": facts,
        "spans": spans,
        "quantities": vocabulary(),
        "curves": CURVES,
        "lowest": LOWEST,
        "highest": HIGHEST,
    }
    data = packed(whole, few_digits=True, **arrays)
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _shown(store: Store) -> list[tuple[str, Quantity]]:
    return [
        (kind, quantity)
        for kind in KINDS
        if store.names(kind)
        for quantity in QUANTITIES.values()
        if kind in quantity.kinds
    ]


def _lines(store: Store) -> int:
    """Returns how many lines of numbers all heat maps have together.

    A count of what is not finite costs nothing: it is zero, or there are few.
    """
    return sum(
        len(store.names(kind))
        for kind, quantity in _shown(store)
        if quantity.name != "nonfinite"
    )


def _heats(
    start: str, store: Store, count: int, arrays: dict[str, NDArray[Any]]
) -> dict[str, float]:
    span = {"low": float(store.first), "high": float(store.last + 1)}
    for kind, quantity in _shown(store):
        found = heat(store, quantity, kind, count=count)
        span = {"low": float(found.low), "high": float(found.high)}
        arrays[f"{start}steps/first"] = found.first
        arrays[f"{start}steps/last"] = found.last
        name = f"{start}heat/{kind}/{quantity.name}/"
        arrays[f"{name}values"] = found.values
        arrays[f"{name}flags"] = found.flags
        if quantity.name == "nonfinite" and (found.flags & _ALARMS).any():
            arrays[f"{start}bad/{kind}"] = _bad(store, kind, count, found.flags)
    return span


def _bad(
    store: Store, kind: str, count: int, flags: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Returns line, bucket and how many elements are what, for each cell with any."""
    cells = np.argwhere(flags & _ALARMS)
    parts = [cells.astype(np.int64)]
    for name in ("nan", "posinf", "neginf"):
        one = Quantity(name, name, "log", KINDS, "", column(name))
        values = heat(store, one, kind, count=count).values
        parts.append(np.nan_to_num(values[tuple(cells.T)])[:, None].astype(np.int64))
    return np.concatenate(parts, axis=1)


def _curves(
    start: str, store: Store, count: int, arrays: dict[str, NDArray[Any]]
) -> None:
    found = curves(store, count=max(count, 600))
    for name in ("first", "last", "low", "high", "flags"):
        arrays[start + name] = getattr(found, name)
    for name in ("updates", "clipped", "skipped"):
        arrays[start + name] = getattr(found, name)


def _histograms(
    start: str, store: Store, runs: int, arrays: dict[str, NDArray[Any]]
) -> None:
    names = store.names("weight")
    if not names:
        return
    most = _COUNTS // (runs * BUCKETS * len(names))
    every = {
        name: histograms(store, name, count=max(4, min(most, 60))) for name in names
    }
    steps = max((steps for steps, _ in every.values()), key=len)
    counts = np.zeros((len(names), len(steps), BUCKETS), np.int32)
    for line, (own, found) in enumerate(every.values()):
        there = np.searchsorted(steps, own)
        there = np.minimum(there, max(0, len(steps) - 1))
        counts[line, there] = np.minimum(found, 2**31 - 1)
    arrays[f"{start}steps"] = steps
    arrays[f"{start}counts"] = counts
