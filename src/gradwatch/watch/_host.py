"""The host's side of watching: says which steps are due, and records what they sent."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..capture import HISTOGRAMS, SCALARS, Watching
from ..record import Record, RunWriter, Sink, Sinks, numbers
from ._assemble import Assembler
from ._cost import Cost
from ._schedule import Every, Moment, as_schedule

# Of steps that are not recorded, the first few and then every tenth are timed: where
# steps run ahead of the host (JAX), timing one means waiting for it.
_TIMED_FIRST, _TIMED_EVERY = 5, 10


class Host:
    """Decides, collects, finishes and writes; never raises.

    Args:
        directory: Where the run goes.
        every: When a step is recorded.
        histograms: Whether recorded steps hold histograms.
        sinks: Further receivers.
    """

    def __init__(
        self,
        directory: Any,
        every: Every,
        histograms: bool,
        sinks: Sequence[Sink],
    ) -> None:
        self.directory = directory
        self.cost = Cost()
        self.step = 0
        """Of the next step to run."""
        self.headline: dict[str, float] = {}
        """The newest numbers of the whole model."""
        self.latest: Record | None = None
        self.failure: str | None = None
        """What went wrong with our part; nothing is recorded after it."""
        self._schedule = as_schedule(every, self.cost)
        self._detail = HISTOGRAMS if histograms else SCALARS
        self._sinks = Sinks(sinks)
        self._writer: RunWriter | None = None
        self._assembler: Assembler | None = None
        self._watching: Watching | None = None
        self._logs: Any = None
        self._armed = 0
        self._timed = 0
        self._began = 0.0
        self._waits = False

    def begin(self, watching: Watching, info: Mapping[str, Any]) -> None:
        """A training starts."""
        self._watching = watching
        self._assembler = Assembler(watching, self._detail == HISTOGRAMS)
        self._writer = RunWriter(self.directory)
        self._writer.note("run", dict(info))
        self._sinks.start(dict(info))
        self._logs = None
        self.cost.begin()

    def end(self) -> None:
        """The training is over, however it ended."""
        self.cost.end()
        if self._writer is not None:
            try:
                self._writer.note("overhead", self.cost.report())
                self._writer.close()
                self._sinks.close()
            except Exception as error:  # noqa: BLE001 - ours must not end a training
                self.failed(error)
        self._writer = self._watching = self._assembler = self._logs = None

    def failed(self, error: Exception) -> None:
        """Warns once; the training goes on, unwatched."""
        if self.failure is None:
            self.failure = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"gradwatch stopped watching at step {self.step}: {self.failure}. The "
                "training goes on as if it had not been watched; what was recorded "
                f"before is in {str(self.directory)!r}.",
                RuntimeWarning,
                stacklevel=2,
            )

    # around each execution ------------------------------------------------------------

    def before(self, steps: int, batch: int = 0, batches: int | None = None) -> None:
        """Arms the next steps."""
        if self.failure is not None or self._watching is None:
            return
        try:
            details = [
                self._detail if self._schedule(moment) else 0
                for moment in (
                    Moment(self.step + ahead, batch + ahead, batches)
                    for ahead in range(steps)
                )
            ]
            self._armed = sum(detail > 0 for detail in details)
            self._watching.stream.arm(details)
            self._timed += 1
            self._waits = (
                self._armed > 0
                or self._timed <= _TIMED_FIRST
                or self._timed % _TIMED_EVERY == 0
            )
            if self._waits:
                self._watching.stream.wait(self._logs)
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            self.failed(error)
        self._began = time.perf_counter()

    def after(self, logs: Any) -> Any:
        """Records what the steps sent; returns the logs with the newest numbers."""
        watching = self._watching
        if self.failure is not None or watching is None:
            return logs
        try:
            seconds = None
            if self._waits:
                watching.stream.wait(logs)
                seconds = time.perf_counter() - self._began
            self._logs = logs
            ran, sent = watching.stream.take()
            self.cost.ran(ran, self._armed, seconds)
            began = time.perf_counter()
            for ahead in sorted(sent):
                self._record(self.step + ahead, sent[ahead])
            self.step += ran
            self.cost.wrote(time.perf_counter() - began, len(sent))
            return self._with_headline(logs)
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            self.failed(error)
            return logs

    def _record(self, step: int, sent: Any) -> None:
        if self._assembler is None or self._writer is None:
            return
        record = self._assembler.record(step, sent)
        if record is None:
            return
        self.latest = record
        self._writer.write(record)
        if self._sinks:
            self._sinks.write(step, numbers(record))
        totals = record.totals
        if "global_norm" in totals:
            self.headline["grad_norm"] = totals["global_norm"]
        if totals.get("weight_norm"):
            ratio = totals["update_norm"] / totals["weight_norm"]
            self.headline["update_ratio"] = ratio

    def _with_headline(self, logs: Any) -> Any:
        if not isinstance(logs, dict):
            return logs
        nothing = {"grad_norm": math.nan, "update_ratio": math.nan}
        return {**logs, **nothing, **self.headline}
