"""The schedule of a training: which steps are recorded, and what that costs.

The two belong together: a budget records as often as the measured cost allows.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._errors import GradwatchError

# which steps are recorded -------------------------------------------------------------


Schedule = Callable[[int, int, int | None], bool]
"""Returns whether a step is recorded; asked once for each, in order.

Gets the number of the step, the number of its batch in the epoch (from 0), and the
number of batches in an epoch, which is None where it is not known.
"""


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
    that much has been earned. What it really cost is in `run.overhead`. Neither knows
    what watching adds to every step: some 20 µs, which only a tiny model feels.

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
        return lambda step, *_: step % every == 0
    if every == "epoch":
        return _ends_epoch
    if callable(every):
        return lambda step, *_: bool(every(step))
    raise GradwatchError(
        f"`{argument}` must be a number of steps from 1, 'epoch', "
        "`gradwatch.budget(…)`, or a function of the step that gives True or False. "
        f"Received: {every!r}."
    )


def _ends_epoch(_: int, batch: int, batches: int | None) -> bool:
    """Returns whether this is the last batch, or the first if the length is unknown."""
    return batch == (0 if batches is None else batches - 1)


class _Earned:
    """Spends what was earned: a share of the time that was trained."""

    def __init__(self, share: float, cost: Cost) -> None:
        self._share, self._cost = share, cost
        self._started: float | None = None
        # Before this time of training the answer is no. To find it takes as long as
        # all else that is done in a step.
        self._asks_at = 0.0

    def __call__(self, *_: Any) -> bool:
        cost, trained = self._cost, self._cost.lasted
        if trained < self._asks_at:
            return False
        if self._started is None or not cost.compiled:
            # The first step is compiled: what it takes says nothing of the others.
            first, self._started = self._started is None, trained
            return first
        if cost.is_open:
            return False  # what a record costs is not known yet
        earned_at = self._started + (cost.spent + cost.next_one) / self._share
        self._asks_at = min(earned_at, trained + _ASK_EVERY)
        return earned_at <= trained


# what it costs ------------------------------------------------------------------------

_ALONE = 4
"""Number of records that are measured one by one before a budget is spent."""

_ASK_EVERY = 0.1
"""Maximum seconds for which a budget that is spent is not asked about again."""

_KEPT = 64
"""Number of the latest times that a median is taken of."""

_LATEST = 64
"""Number of records after which the cost of older ones counts half."""

_OUTLIER, _PAUSE = 10, 0.05
"""An interval of this many usual ones, and this many seconds more, is not ours: a page
of another process, a pause."""

# Seconds of training until a run first says what it has cost, and between two times:
# one that is killed has said it.
_REPORT_FIRST, _REPORT_EVERY = 1.0, 10.0


@dataclass
class Timed:
    """Steps of one kind, and the seconds from the beginning of each to the next."""

    seconds: float = 0.0
    steps: int = 0
    records: int = 0

    def add(self, seconds: float, steps: int, records: int) -> None:
        """Adds an interval."""
        self.seconds += seconds
        self.steps += steps
        self.records += records

    def excess(self, step: float) -> float:
        """Returns the seconds more than these steps would have taken otherwise."""
        return max(0.0, self.seconds - self.steps * step)


class Stopwatch:
    """Adds up the seconds of several trainings."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._total = 0.0

    def start(self) -> None:
        """Begins to count."""
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Stops counting."""
        self._total, self._began = self.seconds, None

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        running = 0.0 if self._began is None else time.perf_counter() - self._began
        return self._total + running


class Cost:
    """Compares the steps that watching makes slower with the others of a training.

    Nothing is added up of what watching is thought to do. An interval is the time from
    one execution to the next, with everything that happens in it: launches, locks of
    Python, the worker beside the trainer. It is *busy* if it holds a record, or if the
    worker works in it; all others are *quiet*, and tell what a step takes by itself.
    Left out are the first intervals, which compile, and the ends of epochs.

    Attributes:
        records: Number of recorded steps.
        steps: Number of steps.
        copying: Seconds spent on copies of the weights, for an autopsy.
    """

    def __init__(self) -> None:
        self.records = self.steps = 0
        self.copying = 0.0
        self._quiet, self._busy, self._latest = Timed(), Timed(), Timed()
        self._usual = 0.0
        self._host: deque[float] = deque(maxlen=_KEPT)
        self._execution = (0, 0)
        self._bursts = 0  # of the worker, when the interval began
        self._idle = True  # whether the worker is done with all records
        self._steady = False  # whether each kind of step has run, and so is compiled
        self._clock = Stopwatch()
        self._compiling = 0.0
        self._report_at = math.inf

    @property
    def compiled(self) -> bool:
        """True if a recorded step has run, so that the next is not compiled."""
        return self.records > 0

    @property
    def is_open(self) -> bool:
        """True while the first records are measured, one after the other."""
        known = self.record is not None and self._busy.records >= _ALONE
        return not known and not (self._idle and self._quiet.steps)

    def ran(self, steps: int, records: int) -> None:
        """Notes an execution: the number of its steps, and of those recorded."""
        self.steps += steps
        self.records += records
        self._execution = (steps, records)

    def took(self, seconds: float | None, bursts: int, *, idle: bool) -> None:
        """Notes the time from the beginning of the latest execution to the next.

        Args:
            seconds: None if more than the execution lay between.
            bursts: Number of times that the worker began to work, and ended, so far.
            idle: Whether it is done with everything.
        """
        steps, records = self._execution
        quiet = not records and bursts == self._bursts and bursts % 2 == 0
        self._bursts, self._idle = bursts, idle
        if seconds is None or not steps:
            return
        if not self._steady:
            self._steady = quiet
            self._compiling += seconds
            return
        each = seconds / steps
        usual = self._usual = self._usual or each
        if each > _OUTLIER * usual + _PAUSE:
            return
        # A tenth of the difference: follows a change within some tens of steps.
        self._usual += 0.1 * (min(each, 2 * usual) - usual)
        if quiet:
            self._quiet.add(seconds, steps, 0)
            return
        self._busy.add(seconds, steps, records)
        self._latest.add(seconds, steps, records)
        if self._latest.records > _LATEST:
            latest = self._latest
            self._latest = Timed(
                latest.seconds / 2, latest.steps // 2, latest.records // 2
            )

    def wrote(self, seconds: float, records: int) -> None:
        """Notes what the trainer's thread did for records."""
        self._host.append(seconds / records)

    @property
    def step(self) -> float | None:
        """Seconds of a step that no record makes slower."""
        return self._quiet.seconds / self._quiet.steps if self._quiet.steps else None

    @property
    def record(self) -> float | None:
        """Seconds that a record costs; None if there is nothing to compare with."""
        if self.step is None or not self._busy.records:
            return None
        return self._busy.excess(self.step) / self._busy.records

    @property
    def host(self) -> float:
        """Seconds of the trainer's thread for a record."""
        return statistics.median(self._host) if self._host else 0.0

    @property
    def spent(self) -> float:
        """Seconds that all records have cost, by the best knowledge."""
        unmeasured = self.records - self._busy.records
        return self._busy.excess(self.step or 0.0) + unmeasured * self.next_one

    @property
    def next_one(self) -> float:
        """Seconds that one more record will cost; before it is known, some steps."""
        if self.step is None or not self._latest.records:
            return 4 * (self.step or 0.0)
        return self._latest.excess(self.step) / self._latest.records

    def begin(self) -> None:
        """Starts the clock of a training."""
        self._clock.start()
        self._report_at = time.perf_counter() + _REPORT_FIRST

    def is_report_due(self) -> bool:
        """Returns whether it is time to write the cost into the run."""
        now = time.perf_counter()
        if now < self._report_at:
            return False
        self._report_at = now + _REPORT_EVERY
        return True

    def end(self) -> None:
        """Stops the clock."""
        self._clock.stop()

    @property
    def lasted(self) -> float:
        """Seconds of training so far."""
        return self._clock.seconds

    def report(self) -> dict[str, Any]:
        """Returns what is written into the run."""
        record, host = self.record, self.host
        steady = self.lasted - self._compiling
        share = None
        if steady > 0 and (record is not None or not self.records):
            share = ((self.spent if record else 0.0) + self.copying) / steady
        return {
            "steps": self.steps,
            "records": self.records,
            "seconds": self.lasted,
            "step_ms": None if self.step is None else 1e3 * self.step,
            "record_ms": None if record is None else 1e3 * record,
            "host_ms": 1e3 * host,
            "copying_seconds": self.copying,
            "share": share,
        }
