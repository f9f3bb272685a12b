"""The doors: findings of a run, of a running monitor, of one gradient."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from .._errors import GradwatchError, counted
from ..run import KINDS, Layout, Record, Run, open_run
from ..summarise import COLUMNS, blank
from ._doctor import Doctor
from ._finding import Finding
from ._measured import Measured
from ._rules import COUNTS, NonFinite
from ._rules._rule import PATIENCE
from ._symptoms import require_symptoms


class UnhealthyError(AssertionError):
    """A training in which something is wrong; the message lists the findings.

    Example:
    >>> import gradwatch as gw
    >>> issubclass(gw.UnhealthyError, AssertionError)
    True

    Attributes:
        findings: What was found.
    """

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        self.findings = findings
        lines = [str(finding) for finding in findings]
        head = f"{counted(len(findings), 'finding')}:"
        super().__init__("\n\n".join([head, *lines]))


def diagnose(what: Any) -> tuple[Finding, ...]:
    """Returns what is wrong with a training, or with one gradient.

    The rules compare layers with each other, steps with those before them, and updates
    with weights: none depends on how large the loss is. A finding needs several
    recorded steps that show it; of a single gradient only some symptoms can be told.
    Where there is too little to judge, and nothing was found, a warning says so.

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
    found, words, _ = _looked_at(what)
    if words and not found:
        warnings.warn(f"gradwatch: {words}", RuntimeWarning, stacklevel=2)
    return found


def _looked_at(what: Any) -> tuple[tuple[Finding, ...], str, bool]:
    """Returns what was found, what could not be told, and whether anything could."""
    if isinstance(what, str | os.PathLike):
        what = open_run(what)
    if isinstance(what, Run):
        return judged(what), untold(what), len(what.steps) > 0
    if hasattr(what, "summary") and hasattr(what, "missing"):
        there = len(what.missing) < len(what.summary())
        return _of_gradients(what), "" if there else _NO_GRADIENT, there
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
        GradwatchError: If `what` is none of what it may be, `ignore` no symptom, or
            nothing was recorded: what nobody saw is not healthy.
    """
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    require_symptoms(ignored, "ignore")
    found, words, seen = _looked_at(what)
    found = tuple(f for f in found if f.symptom not in ignored)
    if found:
        raise UnhealthyError(found)
    if not seen:
        raise GradwatchError(
            "`what` must hold a gradient, or a recorded step. Received: a "
            f"{type(what).__name__} without any. {words or _NO_STEP}"
        )
    if words:
        warnings.warn(f"gradwatch: {words}", RuntimeWarning, stacklevel=2)


_NO_GRADIENT = (
    "There is no gradient to judge: all are missing. `gradients.missing` says why."
)
_NO_STEP = (
    "No step was recorded, so that nothing can be told: the training ended before it, "
    "or `every` chose none."
)
_ALL_FROZEN = (
    "No step was recorded, because no weight of the model is trainable: there are no "
    "gradients to judge. Set `trainable = True` on a layer, and compile again."
)
_NO_FACTS = (
    "Nothing is known of the model, as in a run of an earlier version: what needs its "
    "shapes, activations or outputs, such as dead units, cannot be told."
)


def untold(run: Run) -> str:
    """Returns why less can be told of a run than of others; nothing if that is not so.

    Of a run in which something was found, nobody needs to hear it.
    """
    facts = run.notes.get("model", {})
    if not len(run.steps):
        weights = facts.get("weights", {}).values()
        trains = any(fact.get("trainable") for fact in weights)
        return _ALL_FROZEN if weights and not trains else _NO_STEP
    if len(run.steps) < PATIENCE:
        return too_few(len(run.steps))
    return "" if facts.get("weights") else _NO_FACTS


def too_few(steps: int) -> str:
    """Says that so many recorded steps are too little."""
    return (
        f"{counted(steps, 'recorded step')} {'is' if steps == 1 else 'are'} too little "
        f"to judge: most findings need {PATIENCE} in a row. Record more of them."
    )


def judged(run: Run) -> tuple[Finding, ...]:
    """Returns what is wrong with a training, without a word if little can be told."""
    doctor = Doctor(run.notes.get("model"))
    for record in run.records():
        doctor.see(record)
    last = int(run.steps[-1]) if len(run.steps) else 0
    doctor.note(run.notes, last)
    directory = str(run.directory)
    found = _with_autopsies(doctor.findings, run)
    return tuple(replace(finding, directory=directory) for finding in found)


def _with_autopsies(found: list[Finding], run: Run) -> list[Finding]:
    """What was seen of a NaN while training ran, the rules may not find again.

    An autopsy knows the layer and the cause; and weights that broke between two records
    are in no record.
    """
    told = [Finding.from_dict(kept) for kept in run.findings]
    broken = [finding for finding in told if finding.symptom == "nonfinite"]
    if not broken:
        return found
    return [*broken, *(f for f in found if f.symptom != "nonfinite")]


def nonfinite_counts(finding: Finding) -> dict[str, float | int | str]:
    """Returns the evidence of a finding of NaN that an autopsy does not replace."""
    return {what: finding.evidence[what] for what in COUNTS if what in finding.evidence}


def _of_gradients(gradients: Any) -> tuple[Finding, ...]:
    summary = gradients.summary()
    there = [row for row in summary if row.missing is None and row.kind in KINDS]
    layout = Layout(
        tuple(row.name for row in there),
        tuple(row.kind for row in there),
        tuple(row.size for row in there),
    )
    rows = blank((len(there), len(COLUMNS)))
    for line, row in zip(rows, there, strict=True):
        for place, column in enumerate(COLUMNS):
            number = getattr(row, column, None)
            if number is not None:
                with np.errstate(over="ignore"):
                    line[place] = number
    frozen = {name for name, why in gradients.missing.items() if why.cause == "frozen"}
    facts = {
        "weights": {
            row.name: {
                "shape": list(row.shape),
                # One that is frozen is not missed.
                "trainable": row.name not in frozen,
                "watched": True,
            }
            for row in summary
            if row.kind == "weight"
        }
    }
    record = Record(0, layout, rows, None, {})
    found = tuple(Doctor(facts, single=True).see(record))
    return found or _not_finite([row for row in summary if row.missing is None])


def _not_finite(rows: list[Any]) -> tuple[Finding, ...]:
    """Sees what the rules do not look at: gradients of activations and inputs alone."""
    kinds = ("nan", "posinf", "neginf")
    bad = {row.name: sum(int(getattr(row, kind)) for kind in kinds) for row in rows}
    bad = {name: count for name, count in bad.items() if count}
    if not bad:
        return ()
    evidence: dict[str, float | int | str] = {
        COUNTS[0]: sum(bad.values()),
        "places concerned": f"{len(bad)} of {len(rows)}",
    }
    told = NonFinite()
    return (
        Finding(
            told.symptom,
            addresses=tuple(bad),
            evidence=evidence,
            healthy=told.healthy,
            confidence=0.99,
            try_first=told.try_first,
            measured=Measured("nonfinite_gradients", sum(bad.values()), high=0.0),
        ),
    )
