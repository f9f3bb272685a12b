"""What a picture is told: the same words from TensorBoard's server and in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...diagnose import SYMPTOMS, Finding
from ...run import KINDS, Store
from ...summarise import BUCKETS, HIGHEST, LOWEST
from ._buckets import heat
from ._moments import histograms, moment
from ._quantities import QUANTITIES
from ._totals import CURVES, curves
from ._wire import packed

Span = tuple[float, float] | None
_CELLS = 300_000  # in a heat map: more than a screen shows, and a moment to send


def facts_of(
    name: str,
    store: Store,
    *,
    read: float = 1.0,
    findings: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Returns what is known of a run as a whole, as JSON has it.

    Args:
        name: Of the run.
        store: What was read of it.
        read: How much of what is there, 0 to 1.
        findings: Those of the run without.
    """
    found: dict[str, Any] = plain(
        {
            "name": name,
            "version": store.version,
            "read": read,
            "records": len(store),
            "first": store.first,
            "last": store.last,
            "lines": {
                kind: {"names": store.names(kind), "sizes": store.sizes(kind)}
                for kind in KINDS
                if store.names(kind)
            },
            "findings": [
                _finding(finding)
                for finding in (store.findings if findings is None else findings)
            ],
            "notes": {
                key: store.notes[key]
                for key in ("run", "overhead", "dropped")
                if key in store.notes
            },
        }
    )
    return found


def vocabulary() -> list[dict[str, Any]]:
    """Returns the quantities, in words."""
    return [
        {
            "name": quantity.name,
            "label": quantity.label,
            "scale": quantity.scale,
            "kinds": quantity.kinds,
            "meaning": quantity.meaning,
        }
        for quantity in QUANTITIES.values()
    ]


def heat_answer(
    store: Store, kind: str, quantity: str, span: Span, count: int
) -> bytes:
    """Returns a heat map."""
    most = max(32, _CELLS // max(1, len(store.names(kind))))
    found = heat(store, QUANTITIES[quantity], kind, span, min(count, most))
    return packed(
        {"low": found.low, "high": found.high, "version": store.version},
        first=found.first,
        last=found.last,
        values=found.values,
        flags=found.flags,
    )


def curves_answer(store: Store, span: Span, count: int) -> bytes:
    """Returns the totals as curves."""
    found = curves(store, span, count)
    return packed(
        {"curves": CURVES, "version": store.version},
        first=found.first,
        last=found.last,
        low=found.low,
        high=found.high,
        flags=found.flags,
        updates=found.updates,
        clipped=found.clipped,
        skipped=found.skipped,
    )


def moment_answer(store: Store, kind: str, index: int) -> bytes:
    """Returns one recorded step in full."""
    found = moment(store, index, kind)
    return packed(
        {"index": found.index, "step": found.step, "quantities": list(QUANTITIES)},
        values=found.values,
        flags=found.flags,
        counts=found.counts,
    )


def histograms_answer(store: Store, name: str, span: Span, count: int) -> bytes:
    """Returns the histograms of one weight over time."""
    steps, counts = histograms(store, name, span, count)
    facts = {"name": name, "lowest": LOWEST, "highest": HIGHEST, "buckets": BUCKETS}
    return packed(facts, steps=steps, counts=counts)


def _finding(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a finding with the words that are said of it."""
    words = {"title": SYMPTOMS.get(found.get("symptom", ""), "")}
    try:
        words["text"] = str(Finding.from_dict(found))
    except (KeyError, TypeError, ValueError):  # of another version
        words["text"] = str(found.get("symptom", "finding"))
    return {**found, **words}


def plain(value: Any) -> Any:
    """Returns values that JSON knows: NaN and infinities become words."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
