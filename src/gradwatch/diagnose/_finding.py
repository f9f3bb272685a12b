"""What is wrong, where, since when, how it shows, and what to try first."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._errors import GradwatchError, counted, quoted
from ..run import Run, open_run
from ._measured import Measured
from ._symptoms import SYMPTOMS

if TYPE_CHECKING:
    import os

    from ..show import Figure, ThemeName

_CERTAIN, _LIKELY = 0.95, 0.8


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a training.

    Example:
    >>> finding = Finding(
    ...     "clipping",
    ...     since=3,
    ...     step=22,
    ...     evidence={"updates clipped": 1.0},
    ...     healthy="fewer than half of the updates",
    ...     try_first="Raise `global_clipnorm`.",
    ... )
    >>> finding.one_line()
    'clipping since step 3: clipping acts on nearly every step (updates clipped 1)'

    Attributes:
        symptom: Its name, as in the list of `docs/symptoms`.
        addresses: Where, along the depth of the model; empty where it is everywhere.
        since: The first recorded step that shows it.
        step: The recorded step at which it was sure.
        evidence: The numbers that show it, by what they are.
        healthy: What these numbers would be in a healthy training.
        confidence: How sure it is, 0 to 1.
        excluded: What it might be taken for, and is not.
        try_first: What to do.
        measured: The number on which the rule decided, with its limits: what pictures
            and JSON are made from. `None` of a finding that was made by hand.
        directory: Of the run it was found in, if that is known; `plot` reads it. It is
            no part of what was found: not compared, and not in `to_dict`.
    """

    symptom: str
    addresses: tuple[str, ...] = ()
    since: int = 0
    step: int = 0
    evidence: Mapping[str, float | int | str] = field(default_factory=dict)
    healthy: str = ""
    confidence: float = 1.0
    excluded: tuple[str, ...] = ()
    try_first: str = ""
    measured: Measured | None = None
    directory: str | None = field(default=None, compare=False, repr=False)

    @property
    def page(self) -> str:
        """Where the symptom is explained."""
        return f"docs/symptoms/{self.symptom}.md"

    def one_line(self) -> str:
        """Returns it in one line."""
        where = f" at {_some(self.addresses, 2)}" if self.addresses else ""
        return (
            f"{self.symptom} since step {self.since}: {SYMPTOMS[self.symptom]}{where} "
            f"({self.seen})"
        )

    def __str__(self) -> str:
        where = f" Where: {_some(self.addresses, 6)}." if self.addresses else ""
        sure = f"Since step {self.since}, sure at step {self.step} ({self._sure()})."
        healthy = f" Healthy: {self.healthy}." if self.healthy else ""
        parts = [
            f"{SYMPTOMS[self.symptom].capitalize()} [{self.symptom}].{where}",
            sure,
            f"Seen: {self.seen}.{healthy}",
        ]
        if self.excluded:
            parts.append(f"It is not: {'; '.join(self.excluded)}.")
        if self.try_first:
            parts.append(f"Try first: {self.try_first}")
        return textwrap.fill(" ".join(parts), 88)

    def plot(
        self,
        run: Run | str | os.PathLike[str] | None = None,
        *,
        theme: ThemeName = "light",
    ) -> Figure:
        """Draws the numbers that show it, over the steps or along depth.

        The step at which it was sure is marked, and so is where a healthy training
        would have none of these numbers.

        Args:
            run: The run it was found in, or its directory. Left out, the directory is
                read from which `gradwatch.diagnose` had the run.
            theme: "light" or "dark": the page it is for.

        Returns:
            The matplotlib figure, which `pyplot` does not know. Needs
            `pip install "gradwatch[plot]"`.

        Raises:
            GradwatchError: If the run is not known.
        """
        from ..show.runs import plot_finding

        if run is None:
            run = self.directory
        if run is None:
            raise GradwatchError(
                "`run` must be the run in which this was found. Received: none, and "
                "this finding does not know it: it comes from JSON, or from one "
                "gradient. Give `finding.plot(gradwatch.open_run(directory))`; a "
                "gradient alone is drawn by `gradients.plot()`."
            )
        opened = run if isinstance(run, Run) else open_run(run)
        return plot_finding(self, opened, theme=theme)

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain values, as JSON has them."""
        return {
            "symptom": self.symptom,
            "addresses": list(self.addresses),
            "since": self.since,
            "step": self.step,
            "evidence": {name: _plain(v) for name, v in self.evidence.items()},
            "healthy": self.healthy,
            "confidence": round(self.confidence, 3),
            "excluded": list(self.excluded),
            "try_first": self.try_first,
            "measured": None if self.measured is None else self.measured.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Returns the finding of which these are the values; others are passed over."""
        known = {name: values[name] for name in _FIELDS if name in values}
        for name in ("addresses", "excluded"):
            known[name] = tuple(known.get(name, ()))
        if known.get("measured") is not None:
            known["measured"] = Measured.from_dict(known["measured"])
        return cls(**known)

    def to_json(self) -> str:
        """Returns it as one line of JSON."""
        return json.dumps(self.to_dict())

    def _sure(self) -> str:
        if self.confidence >= _CERTAIN:
            return "certain"
        return "very likely" if self.confidence >= _LIKELY else "likely"

    @property
    def seen(self) -> str:
        """The numbers that show it, in words."""
        return ", ".join(f"{what} {_short(n)}" for what, n in self.evidence.items())


# Whoever wrote the JSON does not choose what is read from disk.
_FIELDS = tuple(name for name in Finding.__dataclass_fields__ if name != "directory")


def _some(addresses: tuple[str, ...], limit: int) -> str:
    if len(addresses) == 1:
        return repr(addresses[0])
    shown = quoted(addresses, limit)
    return shown if len(addresses) <= limit else f"{shown} ({_count(addresses)})"


def _count(addresses: tuple[str, ...]) -> str:
    return counted(len(addresses), "place")


def _short(number: float | str) -> str:
    if isinstance(number, str):
        return number
    if float(number).is_integer() and abs(number) < 1e6:
        return str(int(number))
    return f"{number:.2g}"


def _plain(number: Any) -> Any:
    """JSON knows no NaN and no infinity: they become words."""
    if isinstance(number, str):
        return number
    value = float(number)
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
