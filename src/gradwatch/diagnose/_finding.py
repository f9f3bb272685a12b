"""One thing that is wrong with a training."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._errors import GradwatchError, counted, quoted
from ..run import Run, open_run
from ._measured import Measured, json_number
from ._symptoms import SYMPTOMS

if TYPE_CHECKING:
    import os

    from ..show import Figure, ThemeName


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
        addresses: The layers or weights concerned, along the depth of the model; empty
            if it is all of them.
        since: The first recorded step that shows it.
        step: The recorded step at which it was confirmed.
        until: The last recorded step that shows it, once several in a row have not;
            `None` while it holds.
        evidence: The numbers that show it, by what they are.
        healthy: What these numbers would be in a healthy training.
        confidence: From 0 to 1.
        excluded: What it might be taken for, and is not.
        try_first: What to try first.
        measured: The number on which the rule decided, with its limits: what pictures
            and JSON are made from. `None` of a finding that was made by hand.
        directory: The directory of its run, if that is known; `plot` reads it. It is
            no part of the finding: not compared, and not in `to_dict`.
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
    until: int | None = None

    @property
    def page(self) -> str:
        """The page that explains the symptom."""
        return f"docs/symptoms/{self.symptom}.md"

    @property
    def identity(self) -> tuple[Any, ...]:
        """The part that stays the same when a finding ends."""
        return self.symptom, self.addresses, self.since, self.step, self.measured

    def one_line(self) -> str:
        """Returns it in one line."""
        until = "" if self.until is None else f" until step {self.until}"
        where = f" at {_listed(self.addresses, 2)}" if self.addresses else ""
        return (
            f"{self.symptom} since step {self.since}{until}: "
            f"{SYMPTOMS[self.symptom]}{where} ({self.seen})"
        )

    def __str__(self) -> str:
        where = f" Where: {_listed(self.addresses, 6)}." if self.addresses else ""
        parts = [
            f"{SYMPTOMS[self.symptom].capitalize()} [{self.symptom}].{where}",
            f"First seen at step {self.since}, confirmed at step {self.step} "
            f"({100 * self.confidence:.0f} % confidence).",
        ]
        if self.until is not None:
            parts.append(f"Last seen at step {self.until}: recovered since.")
        parts.append(f"Evidence: {self.seen}.")
        if self.healthy:
            parts.append(f"Healthy: {self.healthy}.")
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

        The step at which it was confirmed is marked, and so is the range that holds
        none of these numbers in a healthy training.

        Args:
            run: The run it was found in, or its directory. Default: the directory from
                which `gradwatch.diagnose` had the run.
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
        values = {name: getattr(self, name) for name in _FIELDS}
        return values | {
            "addresses": list(self.addresses),
            "evidence": {name: json_number(v) for name, v in self.evidence.items()},
            "confidence": round(self.confidence, 3),
            "excluded": list(self.excluded),
            "measured": None if self.measured is None else self.measured.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Returns the finding that has these values; unknown ones are ignored."""
        known = {name: values[name] for name in _FIELDS if name in values}
        for name in ("addresses", "excluded"):
            known[name] = tuple(known.get(name, ()))
        if known.get("measured") is not None:
            known["measured"] = Measured.from_dict(known["measured"])
        return cls(**known)

    def to_json(self) -> str:
        """Returns it as one line of JSON."""
        return json.dumps(self.to_dict())

    @property
    def seen(self) -> str:
        """The numbers that show it, in words."""
        return ", ".join(f"{what} {_short(n)}" for what, n in self.evidence.items())


# Not the directory: JSON does not choose what is read from disk.
_FIELDS = tuple(name for name in Finding.__dataclass_fields__ if name != "directory")


def _listed(addresses: tuple[str, ...], limit: int) -> str:
    shown = quoted(addresses, limit)
    count = counted(len(addresses), "place")
    return shown if len(addresses) <= limit else f"{shown} ({count})"


def _short(number: float | str) -> str:
    if isinstance(number, str):
        return number
    if float(number).is_integer() and abs(number) < 1e6:
        return str(int(number))
    return f"{number:.2g}"
