"""The doors: findings of a run, of a running monitor, of one gradient."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .._errors import GradwatchError, counted
from ..record import KINDS, Layout, Record, Run, open_run
from ..summarise import COLUMNS, blank
from ._doctor import Doctor
from ._finding import Finding


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

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> model.compile("sgd", "mse")
    >>> monitor = gw.GradientMonitor("runs/d", every=1)
    >>> x, y = np.ones((8, 3)), np.ones((8, 2))
    >>> history = model.fit(x, y, batch_size=2, verbose=0, callbacks=[monitor])
    >>> gw.diagnose("runs/d")
    ()

    Args:
        what: A run, the directory of one, a `GradientMonitor`, or a `Gradients`.

    Raises:
        GradwatchError: If it is none of these.
    """
    if isinstance(what, str | os.PathLike):
        what = open_run(what)
    if isinstance(what, Run):
        return _of_run(what)
    if hasattr(what, "summary") and hasattr(what, "missing"):
        return _of_gradients(what)
    if hasattr(what, "findings") and hasattr(what, "latest"):
        return tuple(what.findings)
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
        GradwatchError: If `what` is none of what it may be.
    """
    ignored = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    found = tuple(f for f in diagnose(what) if f.symptom not in ignored)
    if found:
        raise UnhealthyError(found)


def _of_run(run: Run) -> tuple[Finding, ...]:
    doctor = Doctor(run.notes.get("model"))
    for record in run.records():
        doctor.see(record)
    last = int(run.steps[-1]) if len(run.steps) else 0
    doctor.note(run.notes, last)
    return tuple(doctor.findings)


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
    facts = {
        "weights": {
            row.name: {
                "shape": list(row.shape),
                # One that is frozen is not missed.
                "trainable": "frozen" not in str(row.missing),
                "watched": True,
            }
            for row in summary
            if row.kind == "weight"
        }
    }
    record = Record(0, layout, rows, None, {})
    return tuple(Doctor(facts, single=True).see(record))
