"""The data of each picture, as the tab's server sends it and a report embeds it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...diagnose import SYMPTOMS, Finding
from ...run import KINDS, Run
from ...summarise import BUCKETS, HIGHEST, LOWEST
from ._heat import CURVES, Span, curves, heat
from ._quantities import QUANTITIES
from ._snapshot import histograms, snapshot
from ._wire import packed

_CELLS = 300_000  # in a heat map: more than a screen shows, and a moment to send
_NOTES = ("run", "overhead", "dropped")


def facts_of(
    name: str,
    run: Run,
    *,
    read: float = 1.0,
    findings: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Returns the facts of a run as a whole, as JSON has them.

    Args:
        name: The name of the run.
        run: The run.
        read: Share of what is on disk that has been read, 0 to 1.
        findings: The findings; those of the run if left out.
    """
    store = run.store
    told = []
    for each in run.findings if findings is None else findings:
        symptom = each.get("symptom", "finding")
        try:
            text = str(Finding.from_dict(each))
        except (KeyError, TypeError, ValueError):  # of another version
            text = str(symptom)
        told.append({**each, "title": SYMPTOMS.get(symptom, ""), "text": text})
    lines = {
        kind: {"names": store.names(kind), "sizes": store.sizes(kind)}
        for kind in KINDS
        if store.names(kind)
    }
    facts: dict[str, Any] = plain(
        {
            "name": name,
            "version": store.version,
            "read": read,
            "records": len(store),
            "first": store.first,
            "last": store.last,
            "lines": lines,
            "findings": told,
            "notes": {key: run.notes[key] for key in _NOTES if key in run.notes},
        }
    )
    return facts


def vocabulary() -> list[dict[str, Any]]:
    """Returns the quantities, in words."""
    fields = ("name", "scale", "kinds", "meaning", "percent")
    return [
        {
            **{field: getattr(quantity, field) for field in fields},
            "label": f"% {quantity.label}" if quantity.percent else quantity.label,
        }
        for quantity in QUANTITIES.values()
    ]


def heat_answer(run: Run, kind: str, quantity: str, span: Span, count: int) -> bytes:
    """Returns a heat map."""
    most = max(32, _CELLS // max(1, len(run.store.names(kind))))
    drawn = heat(run, QUANTITIES[quantity], kind, span, min(count, most))
    facts = {"low": drawn.low, "high": drawn.high, "version": run.store.version}
    return packed(facts, drawn.arrays)


def curves_answer(run: Run, span: Span, count: int) -> bytes:
    """Returns the totals as curves."""
    drawn, more = curves(run, span, count)
    facts = {"curves": CURVES, "version": run.store.version}
    return packed(facts, drawn.arrays | more)


def snapshot_answer(run: Run, kind: str, index: int) -> bytes:
    """Returns one recorded step in full."""
    step = int(run.steps[index])
    facts = {"index": index, "step": step, "quantities": list(QUANTITIES)}
    return packed(facts, snapshot(run, index, kind))


def histograms_answer(run: Run, name: str, span: Span, count: int) -> bytes:
    """Returns the histograms of one weight over time."""
    steps, counts = histograms(run, name, span, count)
    facts = {"name": name, "lowest": LOWEST, "highest": HIGHEST, "buckets": BUCKETS}
    return packed(facts, {"steps": steps, "counts": counts})


def plain(value: Any) -> Any:
    """Returns values that JSON has: NaN and infinities become words."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
