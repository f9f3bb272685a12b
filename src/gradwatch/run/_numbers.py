"""The few numbers of a step that other tools draw as curves."""

from __future__ import annotations

from ..summarise import COLUMNS, is_blank
from ._layout import Record

_NORM = COLUMNS.index("norm")
_SUFFIX = {"weight": "norm", "activation": "gradient_norm"}


def numbers(record: Record) -> dict[str, float]:
    """Returns headline and per-layer numbers by name; what was not measured is absent.

    Example:
    >>> from gradwatch.run import Layout, Record
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> layout = Layout(("conv1/kernel",), ("weight",), (9,))
    >>> numbers(Record(0, layout, rows, None, {"global_norm": 0.5}))
    {'gradients/global_norm': 0.5, 'conv1/kernel/norm': 0.5}
    """
    totals = record.totals
    found = {}
    if "global_norm" in totals:
        found["gradients/global_norm"] = float(totals["global_norm"])
    if "update_norm" in totals and totals.get("weight_norm", 0):
        ratio = float(totals["update_norm"]) / float(totals["weight_norm"])
        found["gradients/update_ratio"] = ratio
    layout = record.layout
    norms = record.rows[:, _NORM]
    blank = is_blank(norms)
    for line, (name, kind) in enumerate(zip(layout.names, layout.kinds, strict=True)):
        if kind in _SUFFIX and not blank[line]:
            found[f"{name}/{_SUFFIX[kind]}"] = float(norms[line])
    return found
