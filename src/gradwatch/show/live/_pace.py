"""The pace of a training: when its records arrived."""

from __future__ import annotations

import time
from collections import deque

from ...run import Run

_ARRIVALS = 16  # from which the pace is computed


class Pace:
    """The times at which new records of a run were read.

    Attributes:
        heard: When the newest record was read, by the monotonic clock.
    """

    def __init__(self) -> None:
        self.heard: float | None = None
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=_ARRIVALS)
        self._restarts = 0

    def update(self, run: Run) -> None:
        """Records the time. Called when a run was read to the end."""
        now = time.monotonic()
        if run.restarts != self._restarts:
            self._restarts = run.restarts
            self._arrivals.clear()
        last = run.store.last
        if len(run.store) and (not self._arrivals or self._arrivals[-1][1] != last):
            self._arrivals.append((now, last))
            self.heard = now

    def per_second(self, run: Run) -> float | None:
        """Returns steps per second: of the whole training at its end, else of late."""
        cost = run.notes.get("overhead", {})
        if run.ended and cost.get("seconds"):
            return float(cost["steps"]) / float(cost["seconds"])
        if len(self._arrivals) < 3:  # the first was written before it could be read
            return None
        (then, first), (now, last) = self._arrivals[0], self._arrivals[-1]
        return (last - first) / (now - then) if now > then else None
