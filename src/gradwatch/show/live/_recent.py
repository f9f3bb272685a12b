"""What is kept of a run that is being written: the newest records, and no more.

A picture in a terminal has room for a few dozen of them. A run of days must not fill
the memory of whoever looks at it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...record import FoundStep
from ...record._series import Column, columns_of, ratio

KEPT = 512
"""Records of which the curves are drawn."""

_PACE = 16  # arrivals from which the pace is had

ABSENT, ZERO, FINITE, NEGINF, POSINF, NAN = range(6)
"""What a norm is; the larger, the worse, but for zeros, which are told by themselves.

A gradient with one NaN has no other norm than NaN.
"""


@dataclass(eq=False)
class Kept:
    """One record, whose columns are unpacked when they are looked at."""

    found: FoundStep

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The numbers by name, one per line."""
        return columns_of(self.found.rows, self.found.columns)

    @cached_property
    def ratio(self) -> Column:
        """The norm of the update over that of the weight."""
        return ratio(self.columns["update_norm"], self.columns["weight_norm"])

    @cached_property
    def kinds(self) -> NDArray[np.int_]:
        """What the norm of each line is, of all its elements."""
        norm = self.columns["norm"]
        kinds = np.where(norm.filled(1.0) == 0, ZERO, FINITE)
        kinds[np.ma.getmaskarray(norm)] = ABSENT
        for column, kind in (("neginf", NEGINF), ("posinf", POSINF), ("nan", NAN)):
            kinds[self.columns[column].filled(0.0) > 0] = kind
        bad = ~np.isfinite(norm.filled(0.0)) & (kinds <= FINITE)
        kinds[bad] = NAN
        return kinds


class Recent:
    """A listener that remembers what a live picture shows.

    Attributes:
        records: The newest, ascending.
        steps: All recorded steps.
        findings: Each with its "step".
        notes: Facts of the run as a whole.
        ended: Whether the last thing the run said is that the training is over.
        heard: When the newest record came in, by the monotonic clock.
    """

    def __init__(self) -> None:
        self.records: deque[Kept] = deque(maxlen=KEPT)
        self.steps: list[int] = []
        self.findings: list[dict[str, Any]] = []
        self.notes: dict[str, dict[str, Any]] = {}
        self.ended = False
        self.heard: float | None = None
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=_PACE)

    # as a listener --------------------------------------------------------------------

    def restart(self, step: int) -> None:
        """Forgets what is known from this step on."""
        self.ended = False
        self._arrivals.clear()
        del self.steps[bisect_left(self.steps, step) :]
        while self.records and self.records[-1].found.step >= step:
            self.records.pop()
        self.findings = [found for found in self.findings if found["step"] < step]

    def step(self, found: FoundStep) -> None:
        """Keeps a record; one that is not later than the last starts again there."""
        if self.steps and found.step <= self.steps[-1]:
            self.restart(found.step)
        self.ended = False
        self.steps.append(found.step)
        self.records.append(Kept(found))

    def finding(self, step: int, finding: dict[str, Any]) -> None:
        """Keeps what was found."""
        self.findings.append({**finding, "step": step})

    def note(self, key: str, facts: dict[str, Any]) -> None:
        """Keeps facts of the run. What watching cost in all is said when it is over.

        A training that comes after it says what it is, too. But one that is over before
        its first record says both at once.
        """
        self.notes[key] = facts
        over = key == "overhead" and not facts.get("so_far")
        again = key == "overhead" or (key == "run" and bool(self.steps))
        self.ended = over or (self.ended and not again)

    # the pace -------------------------------------------------------------------------

    def arrived(self) -> None:
        """All that was there has been read: whatever is new came just now."""
        now = time.monotonic()
        last = self.steps[-1] if self.steps else None
        if last is not None and (not self._arrivals or self._arrivals[-1][1] != last):
            self._arrivals.append((now, last))
            self.heard = now

    @property
    def pace(self) -> float | None:
        """Steps a second: of the whole training when it is over, else of late."""
        cost = self.notes.get("overhead", {})
        if self.ended and cost.get("seconds"):
            return float(cost["steps"]) / float(cost["seconds"])
        if len(self._arrivals) < 3:  # the first came while nobody looked
            return None
        (then, first), (now, last) = self._arrivals[0], self._arrivals[-1]
        return (last - first) / (now - then) if now > then else None
