"""Asks the rules at each recorded step; a sign that lasts becomes a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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

To judge a record takes a tenth of a millisecond: too much for a training that makes a
thousand a second. A sign that lasts is confirmed within an eighth of the records.
"""


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


@dataclass
class _AskedRule:
    """A rule, and what it has shown so far.

    Attributes:
        rule: The rule.
        due: Number of judged steps after which it is asked next.
        waiting: Number of judged steps since the last one that it was asked about.
        streaks: By the key of the sign.
    """

    rule: Rule
    due: int
    waiting: int = 0
    streaks: dict[str, _Streak] = field(default_factory=dict)

    def made(self) -> set[str]:
        """Returns the keys of the signs that have become findings."""
        return {key for key, s in self.streaks.items() if s.finding is not None}


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
        self._asked = [_AskedRule(rule, _stride(rule)) for rule in RULES]
        self._recent: list[Snapshot] = []

    def read(self, record: Record) -> list[Finding]:
        """Returns the findings that this step confirms, ends, or shows again."""
        changed: list[int] = []
        broken = self._has("nonfinite")
        with np.errstate(all="ignore"):
            step = self._history.append(record)
            # After the first NaN all numbers are its consequence.
            if broken or not self._is_judged(step):
                return []
            self._recent = [*self._recent[1 - PATIENCE :], step]
            skips = self._history.count <= _EACH and not self._single
            for asked in self._asked:
                asked.waiting += 1
                if asked.waiting >= asked.due or not skips:
                    changed += self._ask(asked)
        if not skips:  # no rule is asked about these again
            self._recent = []
        if self._history.count == 1:
            self._asked = [each for each in self._asked if not each.rule.at_start]
        return [self.findings[index] for index in changed]

    def _is_judged(self, step: Snapshot) -> bool:
        """Returns whether the rules are asked about a step; all are in the history.

        A symptom that comes late stays for more than a few records, but a NaN may be in
        one of them only.
        """
        count = self._history.count
        doublings = (count // _EACH).bit_length() - 1
        due = count <= _EACH or count % ((_EACH << doublings) // _PER_DOUBLING) == 0
        return due or step.is_broken

    def read_notes(self, notes: Mapping[str, Any], step: int) -> list[Finding]:
        """Returns what the notes at the end of a training confirm."""
        new = list(_idle_rows(notes.get("rows", {}), step))
        if not self._history.count:  # a model that is frozen altogether has no record
            rows, layout = blank((0, len(COLUMNS))), Layout((), (), ())
            record = Record(step, layout, rows, None, {})
            snapshot = History(self._facts).append(record)
            steps = {"since": step, "step": step}
            new += [finding_of(frozen, sign, **steps) for sign in frozen.look(snapshot)]
        known = [(finding.symptom, finding.addresses) for finding in self.findings]
        new = [f for f in new if (f.symptom, f.addresses) not in known]
        self.findings += new
        return new

    def _has(self, *symptoms: str) -> bool:
        return any(finding.symptom in symptoms for finding in self.findings)

    def _ask(self, asked: _AskedRule) -> Iterator[int]:
        """Asks one rule; yields the indices of findings that are new or have changed.

        Nothing begins or ends before several steps in a row have shown it. Where
        nothing is about to, the rule is asked about the last of that many steps only:
        a sign that lasts as long is there as well. Where something has come or gone,
        it is asked about the steps before. The findings are the same, at the same
        steps.
        """
        rule, step, made = asked.rule, self._recent[-1], asked.made()
        skipped, asked.waiting = self._recent[-asked.waiting : -1], 0
        # Explained by another, it makes no finding; one that was made may end.
        explained = self._has(*rule.explained_by)
        if explained and not made:
            return
        # Of one gradient, the NaN has made whatever else it shows.
        if self._single and self._has("nonfinite"):
            return
        signs = {sign.key: sign for sign in rule.look(step)}
        if not signs and not asked.streaks:
            return
        if signs.keys() != made:  # something has come or gone since
            for earlier in skipped:
                looked = {sign.key: sign for sign in rule.look(earlier)}
                yield from self._count(asked, earlier, looked, explained)
        yield from self._count(asked, step, signs, explained)
        asked.due = _stride(rule) if self._is_settled(asked) else 1

    def _is_settled(self, asked: _AskedRule) -> bool:
        """Returns whether no sign has come, or gone, and may become a finding, or end.

        One that is over is never settled: whatever shows it again moves its end.
        """
        return all(
            streak.count == 0
            if streak.finding is None
            else streak.misses == 0 and self.findings[streak.finding].until is None
            for streak in asked.streaks.values()
        )

    def _count(
        self, asked: _AskedRule, step: Snapshot, signs: dict[str, Sign], explained: bool
    ) -> Iterator[int]:
        """Counts the signs of a step; yields as `_ask` does.

        An end is confirmed as a beginning is: by several recorded steps in a row.
        """
        rule, streaks = asked.rule, asked.streaks
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
                steps = {"since": streak.since, "step": step.step}
                others = excluded(rule, step)
                self.findings.append(finding_of(rule, sign, excluded=others, **steps))
                yield streak.finding
        for streak in (s for key, s in streaks.items() if key not in signs):
            streak.count, streak.misses = 0, streak.misses + 1
            if streak.finding is not None and streak.misses == PATIENCE:
                yield from self._end(streak.finding, streak.last)

    def _end(self, index: int, until: int | None) -> Iterator[int]:
        if self.findings[index].until != until:
            self.findings[index] = replace(self.findings[index], until=until)
            yield index


def _stride(rule: Rule) -> int:
    """Returns the number of steps of which a rule is asked about the last."""
    return min(rule.patience, PATIENCE)


def finding_of(rule: Rule, sign: Sign, **seen: Any) -> Finding:
    """Returns the finding that a sign of a rule becomes; `seen` has its steps."""
    measured, evidence = sign.measured, sign.evidence
    return Finding(
        rule.symptom,
        addresses=sign.addresses,
        evidence={evidence: measured.value or 0}
        if isinstance(evidence, str)
        else dict(evidence),
        healthy=sign.healthy or rule.healthy,
        confidence=confidence(measured) if sign.confidence is None else sign.confidence,
        try_first=sign.try_first or rule.try_first,
        measured=measured,
        **seen,
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
