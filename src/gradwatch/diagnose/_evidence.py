"""The numbers that convicted a training, step by step and along depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..run import Run
from ._finding import Finding
from ._looks import sights
from ._panels import EvidencePanel, Zones, panels_of, zones_of


@dataclass(frozen=True)
class Evidence:
    """One thing that is seen of a finding.

    Attributes:
        panel: What the numbers are.
        zones: The intervals that hold none of them in a healthy training.
        steps: At which they were recorded; along depth, the one step.
        lines: The numbers of each name, one for each of the steps; NaN where there is
            none, or it was NaN.
    """

    panel: EvidencePanel
    zones: Zones
    steps: NDArray[np.int64]
    lines: dict[str, NDArray[np.float64]]


def evidence_of(finding: Finding, run: Run) -> list[Evidence]:
    """Returns what there is to see of a finding in its run; nothing for idle rows.

    Every step is looked at as the rules looked at it: the numbers are theirs.
    """
    panels = panels_of(finding)
    if not panels or not len(run.steps):
        return []
    at = int(np.argmin(np.abs(run.steps - finding.step)))
    found: list[dict[str, dict[int, float]]] = [{} for _ in panels]
    for place, sight in enumerate(sights(run)):
        for panel, kept in zip(panels, found, strict=True):
            if panel.over == "steps" or place == at:
                with np.errstate(all="ignore"):
                    numbers = panel.look(sight)
                for name, number in numbers.items():
                    kept.setdefault(name, {})[place] = number
    return [
        Evidence(
            panel, zones_of(panel, finding), *_gathered(panel, kept, run.steps, at)
        )
        for panel, kept in zip(panels, found, strict=True)
    ]


def _gathered(
    panel: EvidencePanel,
    kept: dict[str, dict[int, float]],
    steps: NDArray[np.int64],
    at: int,
) -> tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    places = list(range(len(steps))) if panel.over == "steps" else [at]
    lines = {
        name: np.array([numbers.get(place, math.nan) for place in places])
        for name, numbers in kept.items()
    }
    return steps[places], lines
