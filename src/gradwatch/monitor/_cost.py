"""What watching costs, measured while it happens."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from typing import Any

from ._estimate import Swept, estimate

KEPT = 64
"""Of the last times, for the medians."""


class Cost:
    """Compares recorded executions with the others of the same training.

    The first execution of each kind is left out: it holds compilation. Times are
    medians, so that an epoch's end or a busy machine does not count as ours.
    """

    def __init__(self) -> None:
        self.records = 0
        self.steps = 0
        self.spent = 0.0
        """Seconds, by the best knowledge at the time."""
        self._plain: deque[float] = deque(maxlen=KEPT)
        self._watched: deque[float] = deque(maxlen=KEPT)
        self._host: deque[float] = deque(maxlen=KEPT)
        self._seen = {True: 0, False: 0}
        self._began: float | None = None
        self._total = 0.0
        self.copying = 0.0
        """Seconds spent on copies of the weights, for an autopsy."""
        self.alone: float | None = None
        """Seconds of the sums by themselves, where no other step is to compare with."""
        self.swept: Swept | None = None
        """What a recorded step reads; known after the first."""
        self._estimated: tuple[Swept, float] | None = None

    @property
    def compiled(self) -> bool:
        """Whether a recorded step has run, so that the next is not compiled."""
        return self._seen[True] > 0

    def ran(self, steps: int, records: int, seconds: float | None) -> None:
        """Notes an execution; `seconds` is None where it was not waited for."""
        self.steps += steps
        self.records += records
        watched = records > 0
        self._seen[watched] += 1
        if seconds is None or self._seen[watched] == 1 or steps == 0:
            return
        if watched:
            self._watched.append(seconds / steps)
        else:
            self._plain.append(seconds / steps)

    def wrote(self, seconds: float, records: int) -> None:
        """Notes what the host did for records: reading, finishing, writing."""
        if records:
            self._host.append(seconds / records)
            self.spent += seconds + records * (self.in_step or 0.0)

    @property
    def step(self) -> float | None:
        """Seconds of a step that is not recorded."""
        return statistics.median(self._plain) if self._plain else None

    @property
    def in_step(self) -> float | None:
        """Seconds that a recorded step takes longer; None if there is no other."""
        if not self._plain or not self._watched:
            return self.alone
        longer = statistics.median(self._watched) - statistics.median(self._plain)
        return max(0.0, longer)

    def _found(self) -> tuple[float | None, str | None]:
        """Returns the same for the report, and how it was found."""
        if self._plain and self._watched:
            return self.in_step, "other steps"
        if self.alone is not None:
            return self.alone, "the sums alone"
        if self.swept is None or not self.records:
            return None, None
        if self._estimated is None or self._estimated[0] != self.swept:
            self._estimated = self.swept, estimate(self.swept)
        # A part is not more than the whole.
        whole = statistics.median(self._watched) if self._watched else math.inf
        return min(self._estimated[1], whole), "an estimate"

    @property
    def host(self) -> float:
        """Seconds of the host for a record."""
        return statistics.median(self._host) if self._host else 0.0

    @property
    def next_one(self) -> float:
        """Seconds that one more record will cost; before it is known, a whole step."""
        if self.in_step is not None:
            return self.in_step + self.host
        return (self.step or 0.0) + self.host

    def begin(self) -> None:
        """The clock of training starts."""
        self._began = time.perf_counter()

    def end(self) -> None:
        """The clock of training stops."""
        if self._began is not None:
            self._total += time.perf_counter() - self._began
            self._began = None

    @property
    def lasted(self) -> float:
        """Seconds of training so far."""
        running = 0.0 if self._began is None else time.perf_counter() - self._began
        return self._total + running

    def report(self) -> dict[str, Any]:
        """Returns what is written into the run."""
        total = self.lasted
        in_step, compared_with = self._found()
        each = self.host + (in_step or 0.0)
        spent = each * self.records + self.copying
        known = in_step is not None or not self.records
        return {
            "steps": self.steps,
            "records": self.records,
            "seconds": total,
            "step_ms": None if self.step is None else 1e3 * self.step,
            "in_step_ms": None if in_step is None else 1e3 * in_step,
            "host_ms": 1e3 * self.host,
            "compared_with": compared_with,
            "copying_seconds": self.copying,
            "share": spent / total if total and known else None,
        }
