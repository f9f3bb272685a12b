"""Findings in a picture: numbered badges above the axes, explained in the legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...diagnose import within

MOST = 6  # findings that are marked: more would not be read


@dataclass(frozen=True, slots=True)
class Badge:
    """A finding in a picture.

    Attributes:
        number: The number by which the picture names it.
        symptom: The name of its symptom.
        since: The first step that shows it.
        step: The step at which it was confirmed.
        until: The last step that shows it; `None` while it holds.
        rows: The indices of the rows it concerns; empty: the whole run.
    """

    number: int
    symptom: str
    since: int
    step: int
    until: int | None
    rows: tuple[int, ...]

    @property
    def label(self) -> str:
        """Its entry in the legend."""
        when = f"{'at' if self.since == self.step else 'since'} step {self.since:,}"
        until = "" if self.until is None else f" until step {self.until:,}"
        return f"{self.number}  {self.symptom} {when}{until}"


def badges_of(
    findings: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> tuple[list[Badge], int]:
    """Returns the badges, in order of time, and the number of findings left out.

    A finding that concerns none of the rows that are drawn has no badge.

    Args:
        findings: The findings of the run.
        names: The addresses that are drawn, in their order.
    """
    badges: list[Badge] = []
    for finding in sorted(findings, key=lambda finding: int(finding["step"])):
        addresses = [str(name) for name in finding.get("addresses", ())]
        rows = tuple(row for row, name in enumerate(names) if within(name, addresses))
        if rows or not addresses:
            step = int(finding["step"])
            since = int(finding.get("since", step))
            until = finding.get("until")
            symptom = str(finding.get("symptom", "finding"))
            badges.append(Badge(len(badges) + 1, symptom, since, step, until, rows))
    return badges[:MOST], max(0, len(badges) - MOST)
