"""Findings of a run, of a running monitor, or of one gradient."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any

from .._errors import GradwatchError, counted
from ..run import KINDS, Layout, Record, Run, open_run
from ..summarise import COLUMNS, Row, blank
from ._engine import RuleEngine, finding_of
from ._finding import Finding
from ._measured import Measured
from ._rules import COUNTS, PATIENCE, Sign, nonfinite
from ._symptoms import require_symptoms


class UnhealthyError(AssertionError):
    """A training in which something is wrong; the message lists the findings.

    Example:
    >>> import gradwatch as gw
    >>> issubclass(gw.UnhealthyError, AssertionError)
    True

    Attributes:
        findings: The findings.
    """

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        head = f"{counted(len(findings), 'finding')}:"
        super().__init__("\n\n".join([head, *map(str, findings)]))


def diagnose(what: Any) -> tuple[Finding, ...]:
    """Returns what is wrong with a training, or with one gradient.

    The rules compare layers with each other, steps with those before them, and updates
    with weights: none depends on how large the loss is. A finding needs several
    recorded steps that show it; a single gradient shows only some symptoms. Where
    there is too little to judge, and nothing was found, a warning says so.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> model.compile("sgd", "mse")
    >>> monitor = gw.GradientMonitor("runs/d", every=1)
    >>> x, y = np.ones((8, 3)), np.ones((8, 2))
    >>> history = model.fit(x, y, batch_size=1, verbose=0, callbacks=[monitor])
    >>> gw.diagnose("runs/d")
    ()

    Args:
        what: A run, the directory of one, a `GradientMonitor`, or a `Gradients`.

    Raises:
        GradwatchError: If it is none of these.
    """
    findings, gap, _ = _examine(what)
    if gap and not findings:
        warnings.warn(f"gradwatch: {gap}", RuntimeWarning, stacklevel=2)
    return findings


def _examine(what: Any) -> tuple[tuple[Finding, ...], str, bool]:
    """Returns the findings, what could not be judged, and whether anything could."""
    if isinstance(what, str | os.PathLike):
        what = open_run(what)
    if isinstance(what, Run):
        return find(what), why_incomplete(what), len(what.steps) > 0
    if hasattr(what, "summary") and hasattr(what, "missing"):
        any_gradient = len(what.missing) < len(what.summary())
        return _of_gradients(what), "" if any_gradient else _NO_GRADIENT, any_gradient
    if hasattr(what, "findings") and hasattr(what, "latest"):
        return tuple(what.findings), "", what.latest is not None
    raise GradwatchError(
        "`what` must be a run, the directory of one, a `GradientMonitor` or a "
        f"`Gradients`. Received: {type(what).__name__}. Give `gradwatch.open_run(…)`, "
        "or `gradwatch.gradients(model, x, y)`."
    )


def assert_healthy(what: Any, *, ignore: tuple[str, ...] | str = ()) -> None:
    """Raises if something is wrong with a training: for a test suite.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> model.compile("sgd", "mse")
    >>> gw.assert_healthy(gw.gradients(model, np.ones((2, 3)), np.ones((2, 2))))

    Args:
        what: As `diagnose` takes it.
        ignore: Symptoms that are known and accepted.

    Raises:
        UnhealthyError: An `AssertionError` with the findings.
        GradwatchError: If `what` is something else, `ignore` names no symptom, or
            nothing was recorded: there is nothing to judge.
    """
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    require_symptoms(ignored, "ignore")
    findings, gap, any_record = _examine(what)
    findings = tuple(f for f in findings if f.symptom not in ignored)
    if findings:
        raise UnhealthyError(findings)
    if not any_record:
        raise GradwatchError(
            "`what` must hold a gradient, or a recorded step. Received: a "
            f"{type(what).__name__} without any. {gap or _NO_STEP}"
        )
    if gap:
        warnings.warn(f"gradwatch: {gap}", RuntimeWarning, stacklevel=2)


_NO_GRADIENT = (
    "There is no gradient to judge: all are missing. `gradients.missing` says why."
)
_NO_STEP = (
    "No step was recorded, so there is nothing to judge: the training ended before it, "
    "or `every` chose none."
)
_ALL_FROZEN = (
    "No step was recorded, because no weight of the model is trainable: there are no "
    "gradients to judge. Set `trainable = True` on a layer, and compile again."
)
_NO_FACTS = (
    "Nothing is known of the model, as in a run of an earlier version: symptoms that "
    "need its shapes, activations or outputs, such as dead units, cannot be seen."
)


def why_incomplete(run: Run) -> str:
    """Returns why less can be seen in a run than in others; empty if that is not so."""
    facts = run.notes.get("model", {})
    if not len(run.steps):
        weights = facts.get("weights", {}).values()
        trains = any(fact.get("trainable") for fact in weights)
        return _ALL_FROZEN if weights and not trains else _NO_STEP
    if len(run.steps) < PATIENCE:
        return too_few_steps(len(run.steps))
    return "" if facts.get("weights") else _NO_FACTS


def too_few_steps(steps: int) -> str:
    """Says that this number of recorded steps is too small to judge."""
    return (
        f"{counted(steps, 'recorded step')} {'is' if steps == 1 else 'are'} too little "
        f"to judge: most findings need {PATIENCE} in a row. Record more of them."
    )


def find(run: Run) -> tuple[Finding, ...]:
    """Returns the findings of a run, as `diagnose` does, but never warns.

    A NaN that was noticed while training ran is kept as it was reported: an autopsy
    knows the layer and the cause, and weights that broke between two records are in
    no record.
    """
    engine = RuleEngine(run.notes.get("model"))
    for record in run.records():
        engine.read(record)
    engine.read_notes(run.notes, int(run.steps[-1]) if len(run.steps) else 0)
    findings = engine.findings
    reported = [Finding.from_dict(values) for values in run.findings]
    broken = [finding for finding in reported if finding.symptom == "nonfinite"]
    if broken:
        findings = [*broken, *(f for f in findings if f.symptom != "nonfinite")]
    directory = str(run.directory)
    return tuple(replace(finding, directory=directory) for finding in findings)


def nonfinite_counts(finding: Finding) -> dict[str, float | int | str]:
    """Returns the evidence of a finding of NaN that an autopsy does not replace."""
    return {name: finding.evidence[name] for name in COUNTS if name in finding.evidence}


def _of_gradients(gradients: Any) -> tuple[Finding, ...]:
    summary = gradients.summary()
    present = [row for row in summary if row.missing is None]
    ruled = [row for row in present if row.kind in KINDS]
    fields = (
        [getattr(row, field) for row in ruled] for field in ("name", "kind", "size")
    )
    layout = Layout(*map(tuple, fields))
    rows = blank((len(ruled), len(COLUMNS)))
    measured = [name for name in COLUMNS if hasattr(Row, name)]
    for at, row in enumerate(ruled):
        rows[at, : len(measured)] = [getattr(row, name) for name in measured]
    frozen = {name for name, why in gradients.missing.items() if why.cause == "frozen"}
    weights = {
        row.name: {
            "shape": list(row.shape),
            # A frozen weight has no gradient, and is not missed.
            "trainable": row.name not in frozen,
            "watched": True,
        }
        for row in summary
        if row.kind == "weight"
    }
    engine = RuleEngine({"weights": weights}, single=True)
    findings = tuple(engine.read(Record(0, layout, rows, None, {})))
    return findings or _nonfinite_anywhere(present)


def _nonfinite_anywhere(rows: list[Any]) -> tuple[Finding, ...]:
    """Finds what the rules do not look at: gradients of activations and inputs."""
    bad = {row.name: row.nonfinite for row in rows if row.nonfinite}
    if not bad:
        return ()
    measured = Measured("nonfinite_gradients", sum(bad.values()), high=0.0)
    where = f"{len(bad)} of {len(rows)}"
    evidence = {COUNTS[0]: sum(bad.values()), "places concerned": where}
    sign = Sign(measured, evidence, tuple(bad), confidence=0.99)
    return (finding_of(nonfinite, sign),)
