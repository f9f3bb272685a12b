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
        label: Its entry in the legend.
        since: The first step that shows it.
        step: The step at which it was confirmed.
        rows: The indices of the rows it concerns; empty: the whole run.
    """

    number: int
    label: str
    since: int
    step: int
    rows: tuple[int, ...]


Findings = tuple[Sequence[Badge], int]
"""The badges of a picture, and the number of findings left out."""


def badges_of(findings: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Findings:
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
            number, step = len(badges) + 1, int(finding["step"])
            since, until = int(finding.get("since", step)), finding.get("until")
            when = f"{'at' if since == step else 'since'} step {since:,}"
            end = "" if until is None else f" until step {until:,}"
            label = f"{number}  {finding.get('symptom', 'finding')} {when}{end}"
            badges.append(Badge(number, label, since, step, rows))
    return badges[:MOST], max(0, len(badges) - MOST)
