"""Findings as a picture shows them: numbered, with the lines they concern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...diagnose import within

MOST = 6  # of which more would be said than read


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding in a picture.

    Attributes:
        number: By which the picture names it.
        symptom: What it is.
        since: The first step that shows it.
        step: The step at which it was sure.
        lines: Which of the lines that are drawn it concerns; none: the whole run.
    """

    number: int
    symptom: str
    since: int
    step: int
    lines: tuple[int, ...]

    @property
    def words(self) -> str:
        """What the legend says."""
        when = f"since step {self.since:,}" if self.since != self.step else ""
        when = when or f"at step {self.step:,}"
        return f"{self.symptom} {when}"


def marks_of(
    findings: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> tuple[list[Mark], int]:
    """Returns what is marked, in order of time, and how many findings are left out.

    One that concerns none of the lines that are drawn is not marked.

    Args:
        findings: As the run has them.
        names: The addresses that are drawn, in their order.
    """
    found: list[Mark] = []
    for told in sorted(findings, key=lambda told: int(told["step"])):
        addresses = [str(name) for name in told.get("addresses", ())]
        lines = tuple(
            place for place, name in enumerate(names) if within(name, addresses)
        )
        if lines or not addresses:
            step = int(told["step"])
            since = int(told.get("since", step))
            symptom = str(told.get("symptom", "finding"))
            found.append(Mark(len(found) + 1, symptom, since, step, lines))
    return found[:MOST], max(0, len(found) - MOST)
