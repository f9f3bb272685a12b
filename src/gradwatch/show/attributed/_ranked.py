"""The largest numbers of a row, and the sum of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._format import printable
from ._panel import Panel


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a chart: a name, the feature's own value, and the attribution."""

    name: str
    feature: str
    value: float
    rest: bool = False


def charts(panel: Panel) -> list[list[Bar]]:
    """Returns the bars of each example."""
    data = panel.data if panel.data is not None else [None] * len(panel.values)
    return [
        ranked(values, features, panel.labels[0], panel.top)
        for values, features in zip(panel.values, data, strict=True)
    ]


def ranked(
    values: np.ndarray, data: np.ndarray | None, names: Sequence[str], top: int
) -> list[Bar]:
    """Returns the bars of an example: the largest first, the rest added up.

    What is not finite comes before everything: nothing is larger.

    Example:
    >>> bars = ranked(np.array([1.0, -3.0, 0.5]), None, ["a", "b", "c"], 1)
    >>> [(bar.name, bar.value) for bar in bars]
    [('b', -3.0), ('2 others', 1.5)]
    """
    sizes = np.where(np.isfinite(values), np.abs(values), np.inf)
    order = np.argsort(-sizes, kind="stable")
    if len(order) == top + 1:  # one more takes no more room than "1 other"
        top += 1
    features = ["" if data is None else f"{data[at]:.4g}" for at in order]
    values = values[order]
    bars = [
        Bar(printable(names[at]), feature, float(value))
        for at, feature, value in zip(order[:top], features, values, strict=False)
    ]
    if len(order) > top:
        total = float(values[top:].sum(dtype="float64"))
        bars.append(Bar(f"{len(order) - top:,} others", "", total, rest=True))
    return bars
