"""The difference between two runs, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group

from ...diagnose import Finding, find
from ...run import Run, Series
from .._text import printed
from ..charts import NONFINITE
from ._print import parts

LayerDifference = dict[str, Any]
"""One weight or activation that both runs have, at the steps that both recorded.

Its address is `name`; `steps` is the number of steps at which both have a norm that is
finite; `a` and `b` are the medians of the norms of the two runs at these steps, and
`ratio` the median of second over first, step by step; `None` without any. `apart` is
the first step at which they are not equal, or one is not finite and the other is; None
if there is none. `bad_a` and `bad_b` are the numbers of common steps at which the first
and the second run had NaN or infinity.
"""


@dataclass(frozen=True)
class Difference:
    """The difference between two runs; a table when printed.

    Attributes:
        runs: Their directories.
        facts: Facts of the training that differ: a value of each.
        common: Number of steps that both recorded.
        layers: All that both have, the most different first.
        only: Names that only one of them has.
        findings: Findings that only one of them has.
    """

    runs: tuple[str, str]
    facts: Mapping[str, tuple[Any, Any]]
    common: int
    layers: tuple[LayerDifference, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]
    findings: tuple[tuple[Finding, ...], tuple[Finding, ...]]

    @property
    def same(self) -> bool:
        """True if nothing differs."""
        apart = [layer for layer in self.layers if layer["apart"] is not None]
        return not any((self.facts, *self.only, *self.findings, apart))

    def to_dict(self) -> dict[str, Any]:
        """Returns the difference as plain values, as JSON has them."""
        return {
            "runs": list(self.runs),
            "same": self.same,
            "facts": {name: list(pair) for name, pair in self.facts.items()},
            "common_steps": self.common,
            "layers": list(self.layers),
            "only": [list(names) for names in self.only],
            "findings": [[f.to_dict() for f in own] for own in self.findings],
        }

    def __str__(self) -> str:
        return printed(self)

    def __rich__(self) -> Any:
        """Shows colours when printed by rich."""
        return Group(*parts(self))


def compare(a: Run, b: Run) -> Difference:
    """Returns the difference between two runs.

    Norms are compared at the steps that both recorded. Findings are those that the
    monitor wrote; a run without any is judged now.

    Example:
    >>> from gradwatch.run import Layout, Record, RunWriter, open_run
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> for name, norm in (("runs/d", 0.5), ("runs/e", 2.0)):
    ...     rows = blank((1, len(COLUMNS)))
    ...     rows[0, COLUMNS.index("norm")] = norm
    ...     with RunWriter(name) as writer:
    ...         layout = Layout(("a/kernel",), ("weight",), (6,))
    ...         writer.write(Record(0, layout, rows, None, {}))
    >>> difference = compare(open_run("runs/d"), open_run("runs/e"))
    >>> layer = difference.layers[0]
    >>> layer["ratio"], layer["apart"], difference.same
    (4.0, 0, False)

    Args:
        a: A run.
        b: Another.
    """
    mine, yours = (
        {n: n for n in (*run.names, *run.activations) if n in run} for run in (a, b)
    )
    layers = [_layer(a[name], b[name]) for name in mine if name in yours]
    one, two = _trained(a), _trained(b)
    pairs = {key: (one.get(key), two.get(key)) for key in one | two}
    facts = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    runs = str(a.directory), str(b.directory)
    common = np.intersect1d(a.steps, b.steps)
    layers.sort(key=_nearness)
    findings = _apart(_by_symptom(a), _by_symptom(b))
    only = _apart(mine, yours)
    return Difference(runs, facts, len(common), tuple(layers), only, findings)


def _trained(run: Run) -> dict[str, Any]:
    rates = run.totals.learning_rate.compressed()
    return {
        **run.notes.get("run", {}),
        "records": len(run.steps),
        "last step": int(run.steps[-1]) if len(run.steps) else None,
        "first learning rate": float(rates[0]) if len(rates) else None,
    }


def _layer(a: Series, b: Series) -> LayerDifference:
    _, at_a, at_b = np.intersect1d(a.steps, b.steps, return_indices=True)
    one, two = a.norm[at_a], b.norm[at_b]
    bad_one, bad_two = _bad(a)[at_a], _bad(b)[at_b]
    both = ~(np.ma.getmaskarray(one) | np.ma.getmaskarray(two) | bad_one | bad_two)
    apart = a.steps[at_a][(both & (one.data != two.data)) | (bad_one != bad_two)]
    known_one, known_two = one.data[both], two.data[both]
    with np.errstate(all="ignore"):
        ratios = known_two / known_one
    ratios[(known_one == 0) & (known_two == 0)] = 1.0
    return {
        "name": a.name,
        "steps": int(both.sum()),
        "a": _median(known_one),
        "b": _median(known_two),
        "ratio": _median(ratios),
        "apart": int(apart[0]) if len(apart) else None,
        "bad_a": int(bad_one.sum()),
        "bad_b": int(bad_two.sum()),
    }


def _bad(series: Series) -> Any:
    """Returns where some element was NaN or infinite, or the norm is."""
    counts = [getattr(series, name).filled(0.0) for name in NONFINITE]
    return (np.max(counts, axis=0) > 0) | ~np.isfinite(series.norm.filled(0.0))


def _median(numbers: Any) -> float | None:
    return float(np.median(numbers)) if len(numbers) else None


def _nearness(layer: LayerDifference) -> float:
    if layer["bad_a"] != layer["bad_b"]:
        return -np.inf
    if not layer["ratio"]:  # nothing to compare, or zeros in one of them only
        return 0.0 if layer["ratio"] is None else -1e9
    return -abs(float(np.log10(layer["ratio"])))


def _apart(mine: dict[Any, Any], yours: dict[Any, Any]) -> Any:
    """Returns the values of keys that only the first has, and only the second."""
    both = (mine, yours), (yours, mine)
    return tuple(tuple(a[key] for key in a if key not in b) for a, b in both)


def _by_symptom(run: Run) -> dict[tuple[str, tuple[str, ...]], Finding]:
    findings = [Finding.from_dict(values) for values in run.findings] or find(run)
    return {(each.symptom, each.addresses): each for each in findings}
