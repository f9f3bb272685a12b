"""Reactions to findings while a training runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .._errors import GradwatchError
from ..diagnose import Finding, UnhealthyError

OnFinding = str | Callable[[Finding], Any] | None
_WORDS = ("warn", "stop", "raise")


class FindingHandler:
    """Keeps findings, and reacts to each once, on the thread that trains.

    Args:
        on_finding: "warn", "stop" (the training ends well), "raise", a function of the
            finding, or None to only keep it.
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
        self._new: list[Finding] = []
        self._begins = 0  # index of the first finding of this training

    @property
    def ends(self) -> bool:
        """True if a finding ends the training."""
        return self._on_finding in ("stop", "raise")

    def begin(self) -> None:
        """Begins with another training: a finding that it repeats is a new one."""
        self._begins = len(self.findings)

    def add(self, finding: Finding) -> None:
        """Keeps a finding until it is acted on.

        One that was kept before comes again when it has ended: it takes the place of
        the first, and is not acted on again.
        """
        for index in range(self._begins, len(self.findings)):
            if self.findings[index].identity == finding.identity:
                self.findings[index] = finding
                return
        self.findings.append(finding)
        if self._on_finding is not None:
            self._new.append(finding)

    def act(self, model: Any) -> None:
        """Reacts to the findings that are new.

        Raises:
            UnhealthyError: If that was asked for.
        """
        new, self._new = self._new, []
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
