"""The contents of a report on a run, in any format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._errors import counted
from ...diagnose import PATIENCE, SYMPTOMS, Finding, find, too_few_steps
from ...run import Run, Series
from .._format import number, percent
from ..charts import NONFINITE

_SIZES = ("first norm", "last norm", "largest")
HEADS = (*_SIZES, "update ratio", "% zero", "not finite at")
"""The columns of the table of weights."""


Layer = dict[str, Any]
"""One weight, over all recorded steps; `None` where nothing was measured.

Its `name`; the norm of its gradient at the `first` and at the `last` record, and the
`largest`; the median of its update `ratio`; the share of `zeros` at the last record;
and the number of records at which an element was NaN or infinite, `bad`.
"""


@dataclass(frozen=True, slots=True)
class ReportData:
    """A run, read and judged.

    Attributes:
        name: Its name in the report.
        run: The run.
        findings: Its findings.
        trained: The facts of the training, in words.
        layers: Its weights, along the depth of the model.
    """

    name: str
    run: Run
    findings: tuple[Finding, ...]
    trained: dict[str, str]
    layers: tuple[Layer, ...]

    @property
    def enough(self) -> bool:
        """True if there are enough steps to say that nothing is wrong."""
        return bool(self.findings) or len(self.run.steps) >= PATIENCE

    @property
    def verdict(self) -> str:
        """The sentence on a run without findings."""
        if self.enough:
            return "Nothing was found to be wrong."
        return too_few_steps(len(self.run.steps))


def report_data(run: Run, name: str) -> ReportData:
    """Returns the contents of a report.

    Findings are those that the monitor wrote. A run without any is judged now: it may
    be of a version that had no rules yet.
    """
    recorded = tuple(Finding.from_dict(values) for values in run.findings)
    trained = _trained(run)
    trained["judged"] = "while it trained" if recorded else "now, for this report"
    cost = run.overhead or {}
    words = "It was not noted what watching cost: the training did not end yet."
    if cost:
        records, steps = cost.get("records", 0), cost.get("steps", 0)
        words = f"{records:,} of {steps:,} steps were recorded"
        each, share = cost.get("record_ms"), cost.get("share")
        words += "" if each is None else f", at {each:.2f} ms each"
        words += "" if share is None else f": {100 * share:.1f} % of the training time"
        words += " so far." if cost.get("so_far") else "."
    trained["watching cost"] = words
    layers = tuple(_layer(run[name]) for name in run.names)
    return ReportData(name, run, recorded or find(run), trained, layers)


def title_of(finding: Finding) -> str:
    """Returns the heading of a finding."""
    title = SYMPTOMS.get(finding.symptom, finding.symptom)
    return title[:1].upper() + title[1:]


def when(finding: Finding) -> str:
    """Returns the steps that show a finding, in words."""
    until = "" if finding.until is None else f" until step {finding.until:,}"
    return f"since step {finding.since:,}{until}"


def details(
    finding: Finding, most: int, words: Callable[[str], str], code: Callable[[str], str]
) -> list[tuple[str, str]]:
    """Returns what is said of a finding, heading by heading.

    Args:
        finding: The finding.
        most: Maximum number of addresses.
        words: Escapes prose, as the format needs it.
        code: Marks up a name.
    """
    where = ", ".join(code(name) for name in finding.addresses[:most])
    more = len(finding.addresses) - most
    where += f" and {more} more" if more > 0 else ""
    seen = ", ".join(f"{key} {_short(n)}" for key, n in finding.evidence.items())
    texts = (
        ("Evidence", seen),
        ("Healthy", finding.healthy),
        ("It is not", "; ".join(finding.excluded)),
        ("Try first", finding.try_first),
    )
    marked = [(head, _marked(text, words, code)) for head, text in texts]
    return [(head, text) for head, text in (("Where", where), *marked) if text]


def _marked(text: str, words: Callable[[str], str], code: Callable[[str], str]) -> str:
    """Returns prose in which everything between backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return words(text)
    return "".join((code if i % 2 else words)(part) for i, part in enumerate(parts))


def _short(value: float | str) -> str:
    if isinstance(value, str):
        return value
    whole = float(value).is_integer() and abs(value) < 1e6
    return f"{int(value):,}" if whole else number(value, 3)


def _trained(run: Run) -> dict[str, str]:
    facts = run.notes.get("run", {})
    parameters = facts.get("parameters")
    keras = f", Keras {facts['keras']}" if "keras" in facts else ""
    activations = len(run.store.names("activation"))
    more = f", {activations:,} activations" if activations else ""
    store, steps = run.store, counted(len(run.steps), "step")
    span = f", {store.first:,} to {store.last:,}" if len(store) else ""
    trained = {
        "model": str(facts.get("model", "—")),
        "parameters": f"{parameters:,}" if parameters else "—",
        "optimizer": ", ".join(facts.get("optimizers", ())) or "—",
        "backend": f"{facts.get('backend', '—')}{keras}",
        "recorded": steps + (f", number {store.first:,}" if len(store) == 1 else span),
        "watched": f"{len(run.names):,} weights{more}",
    }
    if run.clipping_rate is not None:
        trained["clipped"] = f"{100 * run.clipping_rate:.0f} % of the recorded updates"
    lost = run.notes.get("dropped", {}).get("count")
    if lost:
        trained["not written"] = f"{lost:,} records: the disk failed"
    return trained


def cells_of(layer: Layer) -> tuple[str, ...]:
    """Returns the texts below `HEADS`."""
    numbers = (number(layer[key]) for key in ("first", "last", "largest", "ratio"))
    bad = counted(layer["bad"], "record") if layer["bad"] else "—"
    return (*numbers, percent(layer["zeros"]), bad)


def _layer(series: Series) -> Layer:
    norms, ratios, zeros = (
        column.compressed()[np.isfinite(column.compressed())].tolist() or [None]
        for column in (series.norm, series.update_ratio, series.zeros)
    )
    bad = sum(getattr(series, name).filled(0.0) > 0 for name in NONFINITE)
    return {
        "name": series.name,
        "first": norms[0],
        "last": norms[-1],
        "largest": max(norms),
        "ratio": None if ratios == [None] else float(np.median(ratios)),
        "zeros": zeros[-1],
        "bad": int(np.count_nonzero(bad)),
    }
