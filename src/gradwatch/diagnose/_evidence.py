"""The numbers that convicted a training, step by step and along depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..record import Run
from ._finding import Finding
from ._looks import sights
from ._sides import Side, sides_of


@dataclass(frozen=True)
class Evidence:
    """One thing that is seen of a finding.

    Attributes:
        side: What the numbers are.
        steps: At which they were recorded; along depth, the one step.
        lines: The numbers of each name, one for each of the steps; NaN where there is
            none, or it was NaN.
    """

    side: Side
    steps: NDArray[np.int64]
    lines: dict[str, NDArray[np.float64]]


def evidence_of(finding: Finding, run: Run) -> list[Evidence]:
    """Returns what there is to see of a finding in its run; nothing for idle rows.

    Every step is looked at as the rules looked at it: the numbers are theirs.
    """
    sides = sides_of(finding)
    if not sides or not len(run.steps):
        return []
    at = int(np.argmin(np.abs(run.steps - finding.step)))
    found: list[dict[str, dict[int, float]]] = [{} for _ in sides]
    for place, sight in enumerate(sights(run)):
        for side, kept in zip(sides, found, strict=True):
            if side.over == "steps" or place == at:
                with np.errstate(all="ignore"):
                    numbers = side.look(sight)
                for name, number in numbers.items():
                    kept.setdefault(name, {})[place] = number
    return [
        _gathered(side, kept, run.steps, at)
        for side, kept in zip(sides, found, strict=True)
    ]


def _gathered(
    side: Side, kept: dict[str, dict[int, float]], steps: NDArray[np.int64], at: int
) -> Evidence:
    places = list(range(len(steps))) if side.over == "steps" else [at]
    lines = {
        name: np.array([numbers.get(place, math.nan) for place in places])
        for name, numbers in kept.items()
    }
    return Evidence(side, steps[places], lines)
