"""Looks at a training step by step, and says what is wrong once it is sure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..run import Layout, Record
from ..summarise import COLUMNS, blank
from ._finding import Finding
from ._measured import Measured
from ._rules import (
    NOT,
    Chart,
    Clipping,
    DeadLayer,
    DeadUnits,
    DominatingHead,
    DominatingLayer,
    Exploding,
    ExplodingTime,
    Facts,
    Fading,
    Frozen,
    Growing,
    Initialisation,
    LargeUpdates,
    Noise,
    NonFinite,
    NotFrozen,
    Past,
    Rule,
    Saturated,
    Sight,
    Sign,
    SmallUpdates,
    StuckLoss,
    Underflow,
    Unreached,
    Vanishing,
    VanishingTime,
)

RULES: tuple[type[Rule], ...] = (
    *(NonFinite, Unreached, DeadLayer, DeadUnits),
    *(Vanishing, VanishingTime, Fading, Exploding, ExplodingTime, Growing),
    *(Saturated, Underflow, Clipping, SmallUpdates, LargeUpdates),
    *(Initialisation, DominatingLayer, DominatingHead, Noise, Frozen, NotFrozen),
    StuckLoss,  # the last: it speaks only if nothing else was found
)

_IDLE, _ROWS = 0.5, 50


@dataclass
class _Streak:
    """For how many recorded steps in a row a sign was seen, and since when."""

    since: int
    count: int = 0


class Doctor:
    """Sees records in their order; each finding is told once.

    The same rules read a run on disk and a training that runs: what one finds, the
    other finds at the same step.

    Args:
        facts: What is known of the model; without it, fewer symptoms can be told.
        single: Whether there is one record only, so that patience has no meaning.
    """

    def __init__(self, facts: Facts | None = None, *, single: bool = False) -> None:
        self.facts: Facts = facts or {}
        self.findings: list[Finding] = []
        self._single = single
        self._rules = [rule() for rule in RULES if not single or rule().single]
        self._past = Past()
        self._chart: Chart | None = None
        self._streaks: dict[tuple[int, str], _Streak] = {}
        self._told: set[tuple[str, str]] = set()
        self._broken = False

    @property
    def seen(self) -> int:
        """How many records it has seen."""
        return self._past.count

    def see(self, record: Record) -> list[Finding]:
        """Returns what this step made sure."""
        sight = self._sight(record)
        new: list[Finding] = []
        if self._broken:  # after the first NaN all numbers are its consequence
            return new
        with np.errstate(all="ignore"):
            for place, rule in enumerate(self._rules):
                known = {finding.symptom for finding in (*self.findings, *new)}
                if self._single and "nonfinite" in known:
                    break  # one gradient: what else it shows, the NaN has made
                if not known & rule.follows:
                    new += self._ask(place, rule, sight)
        self._broken = any(f.symptom == "nonfinite" for f in new)
        self.findings += new
        return new

    def note(self, notes: Mapping[str, Any], step: int) -> list[Finding]:
        """Returns what the facts at the end of a training make sure."""
        new = list(_idle(notes.get("rows", {}), step))
        if not self.seen:
            new += self._unrecorded(step)
        new = [f for f in new if (f.symptom, f.addresses[0]) not in self._told]
        self._told |= {(f.symptom, f.addresses[0]) for f in new}
        self.findings += new
        return new

    def _unrecorded(self, step: int) -> Iterable[Finding]:
        """Returns what facts tell alone: a model that is all frozen has no record."""
        nothing = Layout((), (), ())
        record = Record(step, nothing, blank((0, len(COLUMNS))), None, {})
        sight = Sight(record, Chart(nothing, self.facts), Past())
        rule = Frozen()
        return [_finding(rule, sign, sight, step) for sign in rule.look(sight)]

    def _sight(self, record: Record) -> Sight:
        chart, layout = self._chart, record.layout
        same = chart is not None and chart.layout is layout
        if chart is None or not (same or chart.layout == layout):
            self._chart = Chart(layout, self.facts)
            self._past.forget_lines()
        return Sight(record, self._chart or Chart(layout, {}), self._past)

    def _ask(self, place: int, rule: Rule, sight: Sight) -> Iterable[Finding]:
        seen = {sign.key: sign for sign in rule.look(sight)}
        over = [k for k in self._streaks if k[0] == place and k[1] not in seen]
        for ended in over:
            del self._streaks[ended]
        for key, sign in seen.items():
            streak = self._streaks.setdefault((place, key), _Streak(sight.step))
            streak.count += 1
            enough = 1 if sign.certain or self._single else rule.patience
            if streak.count >= enough and (rule.symptom, key) not in self._told:
                self._told.add((rule.symptom, key))
                yield _finding(rule, sign, sight, streak.since)


def _finding(rule: Rule, sign: Sign, sight: Sight, since: int) -> Finding:
    told = (NOT[name](sight) for name in rule.excludes)
    return Finding(
        rule.symptom,
        addresses=sign.addresses,
        since=since,
        step=sight.step,
        evidence=dict(sign.evidence),
        healthy=sign.healthy or rule.healthy,
        confidence=sign.confidence,
        excluded=tuple(words for words in told if words is not None),
        try_first=sign.try_first or rule.try_first,
        measured=sign.measured,
    )


def _idle(rows: Mapping[str, Any], step: int) -> Iterable[Finding]:
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
