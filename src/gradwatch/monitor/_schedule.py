"""Schedules: which steps are recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .._errors import GradwatchError
from ._cost import Cost


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
