"""Asks the rules at each recorded step; a sign that lasts becomes a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..run import Layout, Record
from ..summarise import COLUMNS, blank
from ._finding import Finding
from ._measured import Measured
from ._rules import (
    PATIENCE,
    RULES,
    History,
    Rule,
    Sign,
    Snapshot,
    confidence,
    excluded,
    frozen,
)

_IDLE, _ROWS = 0.5, 50


_EACH, _PER_DOUBLING = 256, 64
"""Number of records that are all judged, and of those judged of each doubling later.

To ask all rules takes a millisecond: too much for a training that makes a thousand
records a second. A sign that lasts is confirmed within an eighth of the records so far.
"""
_NONFINITE = [COLUMNS.index(name) for name in ("nan", "posinf", "neginf")]


@dataclass
class _Streak:
    """The recorded steps in a row at which a sign is seen.

    Attributes:
        since: The first of them.
        last: The newest of them.
        count: Their number; 0 after a step without the sign.
        misses: The number of recorded steps without the sign since then.
        finding: The index of the finding that it became, or None.
    """

    since: int = 0
    last: int = 0
    count: int = 0
    misses: int = 0
    finding: int | None = None


class RuleEngine:
    """Reads records in their order, and reports each finding once.

    The same rules judge a run on disk and a training that runs: what one finds, the
    other finds at the same step.

    Args:
        facts: The note "model" of the run; without it, fewer symptoms are seen.
        single: There is one record only, so that patience has no meaning.

    Attributes:
        findings: The findings so far, each with its end if it is over.
    """

    def __init__(
        self, facts: Mapping[str, Any] | None = None, *, single: bool = False
    ) -> None:
        self.findings: list[Finding] = []
        self._facts = facts
        self._history = History(facts)
        self._single = single
        self._streaks: list[dict[str, _Streak]] = [{} for _ in RULES]

    def read(self, record: Record) -> list[Finding]:
        """Returns the findings that this step confirms, ends, or shows again."""
        changed: list[int] = []
        broken = self._has("nonfinite")
        with np.errstate(all="ignore"):
            self._history.append(record)
            # After the first NaN all numbers are its consequence.
            if broken or not self._is_judged(record):
                return []
            step = self._history.snapshot()
            for rule, streaks in zip(RULES, self._streaks, strict=True):
                if self._single and self._has("nonfinite"):
                    break  # one gradient: the NaN has made whatever else it shows
                # Explained by another, it makes no finding; one that was made may end.
                explained = self._has(*rule.explained_by)
                made = any(streak.finding is not None for streak in streaks.values())
                if made or not explained:
                    changed += self._ask(rule, streaks, step, explained)
        return [self.findings[index] for index in changed]

    def _is_judged(self, record: Record) -> bool:
        """Returns whether the rules are asked about a record; all are in the history.

        A symptom that comes late stays for more than a few records, but a NaN may be in
        one of them only.
        """
        count = self._history.count
        doublings = (count // _EACH).bit_length() - 1
        if count <= _EACH or count % ((_EACH << doublings) // _PER_DOUBLING) == 0:
            return True
        return bool(np.any(record.rows[:, _NONFINITE] > 0))

    def read_notes(self, notes: Mapping[str, Any], step: int) -> list[Finding]:
        """Returns what the notes at the end of a training confirm."""
        new = list(_idle_rows(notes.get("rows", {}), step))
        if not self._history.count:  # a model that is frozen altogether has no record
            rows, layout = blank((0, len(COLUMNS))), Layout((), (), ())
            record = Record(step, layout, rows, None, {})
            history = History(self._facts)
            history.append(record)
            snapshot = history.snapshot()
            new += [_finding(frozen, s, snapshot, step) for s in frozen.look(snapshot)]
        known = [(finding.symptom, finding.addresses) for finding in self.findings]
        new = [f for f in new if (f.symptom, f.addresses) not in known]
        self.findings += new
        return new

    def _has(self, *symptoms: str) -> bool:
        return any(finding.symptom in symptoms for finding in self.findings)

    def _ask(
        self, rule: Rule, streaks: dict[str, _Streak], step: Snapshot, explained: bool
    ) -> Iterator[int]:
        """Asks one rule; yields the indices of findings that are new or have changed.

        An end is confirmed as a beginning is: by several recorded steps in a row.
        """
        signs = {sign.key: sign for sign in rule.look(step)}
        for key, sign in signs.items():
            streak = streaks.setdefault(key, _Streak())
            streak.since = streak.since if streak.count else step.step
            streak.last, streak.misses = step.step, 0
            streak.count += 1
            if streak.count < rule.patience and not self._single:
                continue
            if streak.finding is not None:
                yield from self._end(streak.finding, None)
            elif not explained:
                streak.finding = len(self.findings)
                self.findings.append(_finding(rule, sign, step, streak.since))
                yield streak.finding
        for key in streaks.keys() - signs.keys():
            streak = streaks[key]
            streak.count, streak.misses = 0, streak.misses + 1
            over = streak.misses == PATIENCE and not rule.at_start
            if streak.finding is not None and over:
                yield from self._end(streak.finding, streak.last)

    def _end(self, index: int, until: int | None) -> Iterator[int]:
        if self.findings[index].until != until:
            self.findings[index] = replace(self.findings[index], until=until)
            yield index


def _finding(rule: Rule, sign: Sign, step: Snapshot, since: int) -> Finding:
    measured, evidence = sign.measured, sign.evidence
    return Finding(
        rule.symptom,
        addresses=sign.addresses,
        since=since,
        step=step.step,
        evidence={evidence: measured.value or 0}
        if isinstance(evidence, str)
        else dict(evidence),
        healthy=sign.healthy or rule.healthy,
        confidence=confidence(measured) if sign.confidence is None else sign.confidence,
        excluded=excluded(rule, step),
        try_first=sign.try_first or rule.try_first,
        measured=measured,
    )


def _idle_rows(rows: Mapping[str, Any], step: int) -> Iterator[Finding]:
    for name, counts in rows.items():
        share = 1 - counts["moved"] / max(counts["rows"], 1)
        if share > _IDLE and counts["rows"] >= _ROWS:
            yield Finding(
                "idle-rows",
                addresses=(name,),
                since=counts.get("since", 0),
                step=step,
                evidence={
                    "share of rows that never moved": share,
                    "rows": counts["rows"],
                },
                healthy="most rows move in the first epoch",
                confidence=0.95,
                try_first="Make the vocabulary as large as the data need: count "
                "tokens, hash rare ones together, and check that ids begin at 0.",
                measured=Measured("idle_rows", share, high=_IDLE),
            )
