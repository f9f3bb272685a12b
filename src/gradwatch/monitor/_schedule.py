"""The schedule of a training: which steps are recorded, and what that costs.

The two belong together: a budget records as often as the measured cost allows.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._errors import GradwatchError
from ..backends import Parts
from ..summarise import SUMS

# which steps are recorded -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepInfo:
    """The position of a step in its training.

    Attributes:
        step: Its number.
        batch: The number of its batch in the epoch, from 0.
        batches: Number of batches in an epoch; None where that is not known.
    """

    step: int
    batch: int
    batches: int | None


class Schedule(Protocol):
    """Decides which steps are recorded."""

    def __call__(self, info: StepInfo) -> bool:
        """Returns whether a step is recorded; asked once for each, in order."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A share of training time; made by `budget`.

    Example:
    >>> import gradwatch as gw
    >>> gw.budget(0.02)
    Budget(share=0.02)
    """

    share: float


def budget(share: float) -> Budget:
    """Records as often as costs at most this share of training time.

    The monitor measures what a recorded step costs more than another, and waits until
    that much has been earned. What it really cost is in `run.overhead`.

    Example:
    >>> import gradwatch as gw
    >>> monitor = gw.GradientMonitor("runs/a", every=gw.budget(0.02))

    Args:
        share: Of the time of training, more than 0 and at most 1.

    Raises:
        GradwatchError: If the share is anything else.
    """
    number: object = share
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not 0 < share <= 1:
        raise GradwatchError(
            "`share` must be a share of training time, more than 0 and at most 1. "
            f"Received: {share!r}. For 2 %, write `gradwatch.budget(0.02)`."
        )
    return Budget(float(share))


Every = int | str | Budget | Callable[[int], bool]


def as_schedule(every: Every, cost: Cost, argument: str = "every") -> Schedule:
    """Returns the schedule that an `every` argument means.

    Raises:
        GradwatchError: If it is none of the four.
    """
    if isinstance(every, Budget):
        return _Earned(every.share, cost)
    if isinstance(every, int) and not isinstance(every, bool) and every >= 1:
        return lambda info: info.step % every == 0
    if every == "epoch":
        return _ends_epoch
    if callable(every):
        return lambda info: bool(every(info.step))
    raise GradwatchError(
        f"`{argument}` must be a number of steps from 1, 'epoch', "
        "`gradwatch.budget(…)`, or a function of the step that gives True or False. "
        f"Received: {every!r}."
    )


def _ends_epoch(info: StepInfo) -> bool:
    """Returns whether this is the last batch, or the first if the length is unknown."""
    last = 0 if info.batches is None else info.batches - 1
    return info.batch == last


class _Earned:
    """Spends what was earned: a share of the time that has passed."""

    def __init__(self, share: float, cost: Cost) -> None:
        self._share = share
        self._cost = cost
        self._started: float | None = None

    def __call__(self, info: StepInfo) -> bool:
        del info
        now = time.perf_counter()
        if self._started is None or not self._cost.compiled:
            # The first step is compiled: what it takes says nothing of the others.
            first, self._started = self._started is None, now
            return first
        if self._cost.step is None:
            return False  # what a record costs is known by what a step takes without
        earned = self._share * (now - self._started)
        return self._cost.spent + self._cost.next_one <= earned


# what it costs ------------------------------------------------------------------------

KEPT = 64
"""Number of the latest times that a median is taken of."""

# Seconds of training until a run first says what it has cost, and between two times:
# one that is killed has said it.
_REPORT_FIRST, _REPORT_EVERY = 1.0, 10.0

# Number of times each is read: a gradient and an activation four times (smallest,
# largest, sum, squares), and the weight of a gradient three times, before and after the
# update.
_SWEEPS = {"sums": 7, "values": 4, "gradients": 4}
_FEW, _MANY = 2**12, 2**20
_TURNS = 3


class Swept(NamedTuple):
    """Reads of one recorded step: tensors from end to end, and numbers in all."""

    sweeps: int
    numbers: float


class Cost:
    """Compares recorded executions with the others of the same training.

    The first execution of each kind is left out: it holds compilation. Times are
    medians, so that an epoch's end or a busy machine does not count as ours.

    Attributes:
        records: Number of recorded steps.
        steps: Number of steps.
        spent: Seconds that watching took, by the best knowledge at the time.
        copying: Seconds spent on copies of the weights, for an autopsy.
        alone: Seconds of the sums by themselves, where every step was recorded.
        swept: Reads of a recorded step; known after the first.
    """

    def __init__(self) -> None:
        self.records = 0
        self.steps = 0
        self.spent = 0.0
        self.copying = 0.0
        self.alone: float | None = None
        self.swept: Swept | None = None
        self._plain: deque[float] = deque(maxlen=KEPT)
        self._watched: deque[float] = deque(maxlen=KEPT)
        self._host: deque[float] = deque(maxlen=KEPT)
        self._seen = {True: 0, False: 0}
        self._began: float | None = None
        self._total = 0.0
        self._estimated: tuple[Swept, float] | None = None
        self._by_worker = 0.0  # seconds since the last record
        self._report_at = math.inf

    @property
    def compiled(self) -> bool:
        """True if a recorded step has run, so that the next is not compiled."""
        return self._seen[True] > 0

    def ran(self, steps: int, records: int, seconds: float | None) -> None:
        """Notes an execution; `seconds` is None where it was not waited for."""
        self.steps += steps
        self.records += records
        watched = records > 0
        self._seen[watched] += 1
        if seconds is None or self._seen[watched] == 1 or steps == 0:
            return
        (self._watched if watched else self._plain).append(seconds / steps)

    def sweeps_of(self, sent: Mapping[str, Parts]) -> None:
        """Counts what was read for what a step sent, once in a training."""
        if self.swept is not None:
            return
        sweeps, numbers, size = 0, 0.0, SUMS.index("size")
        for parts in sent.values():
            for name, times in _SWEEPS.items():
                if name in parts:
                    sizes = np.asarray(parts[name])[:, size]
                    sweeps += times * len(sizes)
                    numbers += times * float(sizes.sum())
        self.swept = Swept(sweeps, numbers)

    def worker_took(self, seconds: float) -> None:
        """Notes what the worker did, however late: it counts with the next record."""
        self._by_worker += seconds

    def wrote(self, seconds: float, records: int) -> None:
        """Notes what was done for records: reading, finishing, writing."""
        if records:
            seconds += self._by_worker
            self._by_worker = 0.0
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

    def _in_step(self) -> tuple[float | None, str | None]:
        """Returns the same for the report, and how it is known."""
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
        """Starts the clock of a training."""
        self.swept = None
        self._began = time.perf_counter()
        self._report_at = self._began + _REPORT_FIRST

    def is_report_due(self) -> bool:
        """Returns whether it is time to write the cost into the run."""
        now = time.perf_counter()
        if now < self._report_at:
            return False
        self._report_at = now + _REPORT_EVERY
        return True

    def end(self) -> None:
        """Stops the clock."""
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
        in_step, compared_with = self._in_step()
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


# Every step of a short training may be recorded: then there is no other to compare
# with, and compiling the sums by themselves would take longer than the training did.
# What they read is known, and how fast this machine reads is measured in a moment.


def estimate(what: Swept) -> float:
    """Returns about how many seconds that takes here, measured in some milliseconds."""
    few, many = _sweep(_FEW), _sweep(_MANY)
    each = max(0.0, (many - few) / (_MANY - _FEW))
    return what.sweeps * few + what.numbers * each


def _sweep(size: int) -> float:
    """Returns the seconds of one sweep: the mean of four kinds, the best of some."""
    numbers = np.ones(size, np.float32)
    times = []
    for _ in range(_TURNS):
        began = time.perf_counter()
        numbers.min(), numbers.max(), numbers.sum(), np.dot(numbers, numbers)
        times.append(time.perf_counter() - began)
    return min(times) / 4
