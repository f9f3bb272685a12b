"""What becomes of findings while a training runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from .._errors import GradwatchError
from ..diagnose import Finding, RuleEngine, UnhealthyError
from ..run import Record

OnFinding = str | Callable[[Finding], Any] | None
_WORDS = ("warn", "stop", "raise")


class Verdict:
    """Looks at each record, keeps what it finds, and acts on it once.

    Records are looked at behind the training step; what is done about a finding is done
    by the training's own thread, when the next step is over.

    Args:
        on_finding: "warn", "stop" (the training ends well), "raise", a function of the
            finding, or None to do nothing but keep it.
    """

    def __init__(self, on_finding: OnFinding) -> None:
        words = on_finding is None or on_finding in _WORDS
        if not words and not callable(on_finding):
            raise GradwatchError(
                '`on_finding` must be "warn", "stop", "raise", a function of a '
                f"finding, or None. Received: {on_finding!r}. With None, findings "
                "are recorded and nothing else is done."
            )
        self.findings: list[Finding] = []
        self._on_finding = on_finding
        self._waiting: list[Finding] = []
        self._engine = RuleEngine()
        self._begins = 0

    @property
    def ends(self) -> bool:
        """Whether a finding ends the training."""
        return self._on_finding in ("stop", "raise")

    @property
    def records(self) -> int:
        """How many were seen of this training."""
        return self._engine.records

    def begin(self, facts: Mapping[str, Any] | None) -> None:
        """A training starts: what was seen of another one is not its past."""
        self._engine = RuleEngine(facts)
        self._begins = len(self.findings)

    def see(self, record: Record) -> list[Finding]:
        """Returns what is new with this record."""
        return self._engine.read(record)

    def note(self, notes: Mapping[str, Any], step: int) -> list[Finding]:
        """Returns what the end of the training shows."""
        return self._engine.read_notes(notes, step)

    def keep(self, new: list[Finding]) -> list[Finding]:
        """Keeps findings, and returns them; only those of the first time are acted on.

        One that was kept before comes again when it has ended.
        """
        for finding in new:
            kept = [f.identity for f in self.findings[self._begins :]]
            if finding.identity in kept:
                self.findings[self._begins + kept.index(finding.identity)] = finding
                continue
            self.findings.append(finding)
            if self._on_finding is not None:
                self._waiting.append(finding)
        return new

    def act(self, model: Any) -> None:
        """Does what is to be done about findings that are new.

        Raises:
            UnhealthyError: If that was asked for.
        """
        new = []
        while self._waiting:  # one by one: another may come at any moment
            new.append(self._waiting.pop(0))
        if not new:
            return
        if self._on_finding == "raise":
            raise UnhealthyError(tuple(new))
        for finding in new:
            if callable(self._on_finding):
                self._on_finding(finding)
            else:
                warnings.warn(f"gradwatch: {finding}", UnhealthyTraining, stacklevel=2)
        if self._on_finding == "stop":
            model.stop_training = True


class UnhealthyTraining(UserWarning):
    """Something is wrong with a training; the message is the finding.

    Example:
    >>> import gradwatch as gw
    >>> issubclass(gw.UnhealthyTraining, UserWarning)
    True
    """
