"""The numbers that a report carries for its charts, in as few bytes as they need."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...run import KINDS, Run
from ...summarise import BUCKETS
from ..charts import (
    CURVES,
    NONFINITE,
    OCTAVES,
    QUANTITIES,
    Quantity,
    curves,
    facts_of,
    heat,
    histograms,
    packed,
    vocabulary,
)
from ._data import ReportData

_CELLS = 380_000  # of all heat maps: about a megabyte on disk
_COUNTS = 900_000  # of all histograms: most are zero
_ALARMS = sum(NONFINITE.values())
_NONE = np.zeros(0)  # the steps of a run without any record

Arrays = dict[str, NDArray[Any]]


def embedded(runs: Sequence[ReportData]) -> str:
    """Returns the numbers of these runs as text for a page."""
    arrays: Arrays = {}
    facts, spans = [], []
    # Counts of what is not finite cost nothing: they are zero, or there are few.
    shown = [(data.run, *each) for data in runs for each in _shown(data.run)]
    counted = [(run, kind) for run, kind, q in shown if q.name != "nonfinite"]
    rows = sum(len(run.store.names(kind)) for run, kind in counted)
    count = max(24, _CELLS // max(1, rows))
    for index, data in enumerate(runs):
        run = data.run
        own = facts_of(data.name, run, [each.to_dict() for each in data.findings])
        spans.append(_heats(f"{index}/", run, count, arrays))
        own["records"] = int((arrays.get(f"{index}/steps/first", _NONE) >= 0).sum())
        own["notes"] = {}  # they stand in the page
        facts.append(own)
        drawn, more = curves(run, count=max(count, 600))
        for name, array in (drawn.arrays | more).items():
            arrays[f"{index}/curves/{name}"] = array
        _histograms(f"{index}/histograms/", run, len(runs), arrays)
    whole = {
        "runs": facts,
        "spans": spans,
        "quantities": vocabulary(),
        "curves": CURVES,
        **OCTAVES,
    }
    content = packed(whole, arrays, few_digits=True)
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _shown(run: Run) -> list[tuple[str, Quantity]]:
    return [
        (kind, quantity)
        for kind in KINDS
        if run.store.names(kind)
        for quantity in QUANTITIES.values()
        if kind in quantity.kinds
    ]


def _heats(start: str, run: Run, count: int, arrays: Arrays) -> dict[str, float]:
    span = {"low": float(run.store.first), "high": float(run.store.last + 1)}
    for kind, quantity in _shown(run):
        drawn = heat(run, quantity, kind, count=count)
        span = {"low": float(drawn.low), "high": float(drawn.high)}
        arrays[f"{start}steps/first"] = drawn.first
        arrays[f"{start}steps/last"] = drawn.last
        name = f"{start}heat/{kind}/{quantity.name}/"
        arrays[f"{name}values"] = drawn.values
        arrays[f"{name}flags"] = drawn.flags
        if quantity.name == "nonfinite" and (drawn.flags & _ALARMS).any():
            # Row, bucket and the counts by kind, of each cell with an alarm.
            cells = np.argwhere(drawn.flags & _ALARMS)
            counts = [
                heat(run, Quantity(n, n, ""), kind, count=count).values[tuple(cells.T)]
                for n in NONFINITE
            ]
            table = np.column_stack([cells, np.nan_to_num(counts).T])
            arrays[f"{start}bad/{kind}"] = table.astype(np.int64)
    return span


def _histograms(start: str, run: Run, runs: int, arrays: Arrays) -> None:
    if not run.names:
        return
    most = _COUNTS // (runs * BUCKETS * len(run.names))
    every = [histograms(run, n, count=max(4, min(most, 60))) for n in run.names]
    steps = max((steps for steps, _ in every), key=len)
    counts = np.zeros((len(every), len(steps), BUCKETS), np.int32)
    for row, (own, drawn) in enumerate(every):
        at = np.minimum(np.searchsorted(steps, own), max(0, len(steps) - 1))
        counts[row, at] = np.minimum(drawn, 2**31 - 1)
    arrays[f"{start}steps"] = steps
    arrays[f"{start}counts"] = counts
