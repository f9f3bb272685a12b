"""The facts of a run, as the tab's server sends them and a report embeds them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...diagnose import SYMPTOMS, Finding
from ...run import KINDS, Run
from ._quantities import QUANTITIES

_NOTES = ("run", "overhead", "dropped")


def facts_of(
    name: str, run: Run, findings: Sequence[Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Returns the facts of a run as a whole, as JSON has them.

    Args:
        name: The name of the run.
        run: The run.
        findings: The findings; those of the run if left out.
    """
    store = run.store
    described = []
    for each in run.findings if findings is None else findings:
        symptom = each.get("symptom", "finding")
        try:
            text = str(Finding.from_dict(each))
        except (KeyError, TypeError, ValueError):  # of another version
            text = str(symptom)
        described.append({**each, "title": SYMPTOMS.get(symptom, ""), "text": text})
    known = {kind: names for kind in KINDS if (names := store.names(kind))}
    return {
        "name": name,
        "read": run.share,
        "records": len(store),
        **{key: getattr(store, key) for key in ("version", "first", "last")},
        "lines": {k: {"names": n, "sizes": store.sizes(k)} for k, n in known.items()},
        "findings": plain(described),
        "notes": plain({key: run.notes[key] for key in _NOTES if key in run.notes}),
    }


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


def plain(value: Any) -> Any:
    """Returns values that JSON has: NaN and infinities become words."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
