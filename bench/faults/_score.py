"""How often rules are right: precision and recall over the runs of the fault suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gradwatch.diagnose import SYMPTOMS, diagnose
from gradwatch.run import Run

from ._case import Fault
from ._rivals import RIVALS, Alarm

OURS = "gradwatch"
SOON = 50
"""A healthy run must not be called sick before this step, nor after it."""


@dataclass
class Count:
    """How often a symptom was there, was found, and rightly so."""

    there: int = 0
    hit: int = 0
    alarms: int = 0
    right: int = 0

    @property
    def recall(self) -> float | None:
        """The share of what was there that was found."""
        return self.hit / self.there if self.there else None

    @property
    def precision(self) -> float | None:
        """The share of what was found that was there."""
        return self.right / self.alarms if self.alarms else None


@dataclass
class Miss:
    """One run that was judged wrongly."""

    run: str
    missed: tuple[str, ...]
    wrong: tuple[str, ...]


@dataclass
class Score:
    """The counts of one set of rules.

    Attributes:
        symptoms: By symptom.
        healthy: How many healthy runs there were.
        alarmed: How many of them were called sick.
        alarmed_soon: How many within their first steps.
        misses: What went wrong, run by run.
    """

    symptoms: dict[str, Count] = field(
        default_factory=lambda: {name: Count() for name in SYMPTOMS}
    )
    healthy: int = 0
    alarmed: int = 0
    alarmed_soon: int = 0
    misses: list[Miss] = field(default_factory=list)

    @property
    def total(self) -> Count:
        """All symptoms together."""
        every = self.symptoms.values()
        return Count(
            sum(count.there for count in every),
            sum(count.hit for count in every),
            sum(count.alarms for count in every),
            sum(count.right for count in every),
        )

    def add(self, fault: Fault, run: str, alarms: Iterable[tuple[Alarm, int]]) -> None:
        """Counts what was found in one run, each alarm with its step."""
        found = list(alarms)
        allowed = fault.symptoms | fault.tolerated
        wrong: set[str] = set()
        seen: set[str] = set()
        for alarm, _ in found:
            right = bool(alarm & allowed)
            named = alarm & fault.symptoms or alarm & allowed or alarm
            for symptom in sorted(named)[: None if right else 1]:
                if symptom not in seen:
                    seen.add(symptom)
                    self.symptoms[symptom].alarms += 1
                    self.symptoms[symptom].right += right
                    if not right:
                        wrong.add(symptom)
        for symptom in fault.symptoms:
            self.symptoms[symptom].there += 1
            self.symptoms[symptom].hit += symptom in seen
        if fault.healthy:
            self.healthy += 1
            self.alarmed += bool(found)
            self.alarmed_soon += any(step < SOON for _, step in found)
        missed = tuple(sorted(fault.symptoms - seen))
        if missed or wrong:
            self.misses.append(Miss(run, missed, tuple(sorted(wrong))))


def score(runs: Iterable[tuple[Fault, str, Run]]) -> dict[str, Score]:
    """Returns the score of our rules and of each rival, on the same runs."""
    scores = {name: Score() for name in (OURS, *RIVALS)}
    for fault, name, run in runs:
        scores[OURS].add(fault, name, _ours(run))
        for rival, rules in RIVALS.items():
            # They do not say when: at the end is the kindest reading.
            alarms = [(alarm, SOON) for alarm in dict.fromkeys(rules(run))]
            scores[rival].add(fault, name, alarms)
    return scores


def _ours(run: Run) -> Iterator[tuple[Alarm, int]]:
    for finding in diagnose(run):
        yield frozenset([finding.symptom]), finding.step


def table(scores: dict[str, Score]) -> str:
    """Returns precision and recall of all rules, symptom by symptom."""
    names = list(scores)
    head = f"{'symptom':18} {'runs':>5}  " + "  ".join(f"{n:>14}" for n in names)
    under = f"{'':18} {'':>5}  " + "  ".join(f"{'prec.  recall':>14}" for _ in names)
    lines = [head, under]
    for symptom in SYMPTOMS:
        counts = [scores[name].symptoms[symptom] for name in names]
        lines.append(_line(symptom, counts))
    lines.append(_line("all", [scores[name].total for name in names]))
    shown = (f"{scores[n].alarmed} of {scores[n].healthy}" for n in names)
    alarmed = "  ".join(f"{text:>14}" for text in shown)
    lines.append(f"{'healthy, alarmed':18} {'':>5}  {alarmed}")
    return "\n".join(lines)


def _line(name: str, counts: Sequence[Count]) -> str:
    cells = "  ".join(
        f"{_share(count.precision)}  {_share(count.recall)}".rjust(14)
        for count in counts
    )
    return f"{name:18} {counts[0].there:>5}  {cells}"


def _share(number: float | None) -> str:
    return "    —" if number is None else f"{number:5.2f}"
