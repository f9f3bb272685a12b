"""Monitors, runs, findings and autopsies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np

import gradwatch as gw


def monitor(model: Any, x: Any, optimizer: Any) -> None:
    callback = gw.GradientMonitor("runs/a", every=10)
    model.fit(x, callbacks=[callback])
    gw.GradientMonitor(Path("runs/a"), every=gw.budget(0.05))
    with gw.watch(model, optimizer, "runs/b", every=10) as watched:
        assert_type(watched, gw.Watch)
    gw.watch(model, optimizer, "runs/b", evry=10)  # type: ignore[call-arg]


def runs() -> None:
    run = gw.open_run(Path("runs/a"))
    assert_type(run, gw.Run)
    assert_type(list(run), list[str])
    series = run["conv/kernel"]
    assert_type(series, gw.Series)
    norm: np.ndarray[Any, np.dtype[np.float64]] = series.norm
    steps: np.ndarray[Any, np.dtype[np.int64]] = run.steps
    assert_type(run.findings, tuple[dict[str, Any], ...])
    assert_type(run.activation("conv"), gw.Series)
    gw.open_run(3)  # type: ignore[arg-type]
    del norm, steps


def findings(run: gw.Run) -> None:
    for finding in gw.diagnose(run):
        assert_type(finding, gw.Finding)
        assert_type(finding.symptom, str)
        assert_type(finding.addresses, tuple[str, ...])
        assert_type(finding.since, int)
        assert_type(finding.confidence, float)
        assert_type(str(finding), str)
        finding.symptom = "other"  # type: ignore[misc]
    gw.assert_healthy(run, ignore=("stuck",))


def autopsies(model: Any, x: Any, y: Any) -> None:
    assert_type(gw.autopsy(model, x, y), gw.Autopsy)


def rows(row: gw.Row) -> Iterator[float | None]:
    assert_type(row.name, str)
    assert_type(row.missing, str | None)
    yield row.norm
