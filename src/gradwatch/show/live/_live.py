"""A run that is being written, as a terminal sees it: its newest records, its pace."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any

from ...run import Reader, Store

KEPT = 512
"""Number of the newest records of which curves are drawn."""

_PACE = 16  # arrivals from which the pace is computed


class LiveRun:
    """The store of a run, and when its records came in.

    Args:
        directory: The directory of the run.

    Attributes:
        reader: Reads what is new.
        heard: When the newest record came in, by the monotonic clock.
    """

    def __init__(self, directory: Path) -> None:
        self.reader = Reader(directory, window=KEPT)
        self.heard: float | None = None
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=_PACE)
        self._restarts = 0

    @property
    def store(self) -> Store:
        """The newest records."""
        return self.reader.store

    @property
    def records(self) -> int:
        """Number of all records, also of those that are not kept."""
        return len(self.store.passed) + len(self.store)

    @property
    def notes(self) -> dict[str, dict[str, Any]]:
        """Facts of the run as a whole."""
        return self.store.notes

    def arrived(self) -> None:
        """Notes the time: all that was there has been read, so new records came now."""
        now, store = time.monotonic(), self.store
        if store.restarts != self._restarts:
            self._restarts = store.restarts
            self._arrivals.clear()
        last = store.last if len(store) else None
        if last is not None and (not self._arrivals or self._arrivals[-1][1] != last):
            self._arrivals.append((now, last))
            self.heard = now

    @property
    def pace(self) -> float | None:
        """Steps a second: of the whole training when it is over, else of late."""
        cost = self.notes.get("overhead", {})
        if self.store.ended and cost.get("seconds"):
            return float(cost["steps"]) / float(cost["seconds"])
        if len(self._arrivals) < 3:  # the first came before this one looked
            return None
        (then, first), (now, last) = self._arrivals[0], self._arrivals[-1]
        return (last - first) / (now - then) if now > then else None
