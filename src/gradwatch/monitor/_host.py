"""The host's side of watching: says which steps are due, and records what they sent."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._keras import is_built
from ..diagnose import Finding
from ..run import Record, RunWriter, Sink, Sinks, numbers
from ._assemble import Assembler, Labels, headline
from ._behind import Behind
from ._cost import Cost
from ._described import describe
from ._estimate import swept
from ._loss import LossReader
from ._optimizer import HISTOGRAMS, SCALARS
from ._rows import Rows
from ._schedule import Every, Moment, Schedule, as_schedule
from ._stale import warn_of_nothing
from ._verdict import OnFinding, Verdict
from ._watching import Watching

# Of steps that are not recorded, the first few and then every tenth are timed: where
# steps run ahead of the host (JAX), timing one means waiting for it.
_TIMED_FIRST, _TIMED_EVERY = 5, 10

_WORTH_IT = 20.0  # seconds of training

# Seconds of training after which a run says what it has cost so far, and then between
# two times: one that is killed has said it.
_SAID_FIRST, _SAID_EVERY = 1.0, 10.0


class Host:
    """Decides, collects, finishes and writes; never raises.

    Args:
        directory: Where the run goes.
        every: When a step is recorded.
        histograms: Which recorded steps hold histograms: all, none, or in the terms of
            `every`.
        sinks: Further receivers.
        on_finding: What is done about a finding.
    """

    def __init__(
        self,
        directory: Any,
        every: Every,
        histograms: bool | Every,
        sinks: Sequence[Sink],
        on_finding: OnFinding = None,
    ) -> None:
        self.directory = directory
        self.cost = Cost()
        self.step = 0
        """Of the next step to run."""
        self.headline: dict[str, float] = {}
        """The newest numbers of the whole model."""
        self.added: tuple[str, ...] = ()
        """Those of them that the logs of Keras have from us."""
        self.failure: str | None = None
        """What went wrong with our part; nothing is recorded after it."""
        self.holds = False
        """Whether somebody looks into what is not finite before it is told."""
        self.held: Finding | None = None
        """What waits for that."""
        self._model: Any = None
        self._schedule = as_schedule(every, self.cost)
        self._pictures: Schedule = lambda _: bool(histograms)
        if not isinstance(histograms, bool):
            self._pictures = as_schedule(histograms, self.cost, "histograms")
        # Epochs are rare by themselves: TensorBoard's own tabs show each.
        self._seconds = 0.0 if "epoch" in (every, histograms) else 1.0
        self._sinks = Sinks(sinks)
        self._verdict = Verdict(on_finding)
        self._loss: LossReader | None = None
        self._rows: Rows | None = None
        self._writer: RunWriter | None = None
        self._assembler: Assembler | None = None
        self._latest: Record | None = None
        self._behind = Behind(self._finish)
        self._counted = 0.0  # of its seconds
        self._watching: Watching | None = None
        self._logs: Any = None
        self._details: list[int] = []
        self._timed = 0
        self._batch = 0
        self._began = 0.0
        self._waits = False
        self._says_at = math.inf

    @property
    def latest(self) -> Record | None:
        """The newest record."""
        self._behind.drain()
        return self._latest

    def begin(self, watching: Watching, info: Mapping[str, Any]) -> None:
        """A training starts."""
        self._watching, self._model = watching, watching.model
        self.held = None
        self._assembler = Assembler(watching)
        self._writer = RunWriter(self.directory, self._seconds)
        self._writer.note("run", dict(info))
        self._sinks.start(dict(info))
        self._logs = None
        self._loss = LossReader(watching.model)
        self._described(watching)
        self.cost.swept = None
        self.cost.begin()
        self._says_at = time.perf_counter() + _SAID_FIRST

    def _described(self, watching: Watching) -> None:
        """Notes what a diagnosis has to know of the model, as it begins."""
        self._rows, facts = None, None
        if is_built(watching.model):
            try:
                tree, selection, _ = watching.resolve()
                facts = describe(tree, selection.weights, values=True)
                self._rows = Rows(tree, self.step)
                self._writer.note("model", facts)  # type: ignore[union-attr]
            except Exception as error:  # noqa: BLE001 - ours must not end a training
                self.failed(error)
        self._verdict.begin(facts)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found so far."""
        self._behind.drain()
        directory = os.fspath(self.directory)
        return tuple(replace(f, directory=directory) for f in self._verdict.findings)

    def end(self, *, well: bool = False) -> None:
        """The training is over, however it ended."""
        self._behind.close()
        self._notice()
        self.cost.end()
        if well:
            self._compare()
            self._last_look()
        if self._writer is not None:
            try:
                self._writer.note("overhead", self.cost.report())
                self._writer.close()
                self._sinks.close()
            except Exception as error:  # noqa: BLE001 - ours must not end a training
                self.failed(error)
        self._writer = self._watching = self._assembler = self._logs = None

    def _compare(self) -> None:
        """Where every step was recorded there is none to compare with.

        Compiling the sums by themselves takes a second: not after a few steps only, and
        not while an error is on its way, when a model may have no weights (JAX).
        """
        watching = self._watching
        if watching is None or self.failure is not None or not self.cost.records:
            return
        if self.cost.in_step is None and self.cost.lasted > _WORTH_IT:
            try:
                self.cost.alone = watching.seconds()
            except Exception as error:  # noqa: BLE001 - ours must not end a training
                self.failed(error)

    def _last_look(self) -> None:
        if self._rows is None or self._writer is None or self.failure is not None:
            return
        try:
            moved = self._rows.moved()
            if moved:
                self._writer.note("rows", moved)
            last = max(self.step - 1, 0)
            new = self._verdict.keep(self._verdict.note({"rows": moved}, last))
            for finding in new:
                self._writer.finding(last, finding.to_dict(), str(finding))
            if not new and not self._verdict.records:
                warn_of_nothing(self._model)
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            self.failed(error)

    def failed(self, error: Exception, step: int | None = None) -> None:
        """Warns once; the training goes on, unwatched."""
        if self.failure is None:
            self.failure = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"gradwatch stopped watching at step "
                f"{self.step if step is None else step}: {self.failure}. The "
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
        self._batch = batch
        try:
            self._details = [
                self.detail(Moment(self.step + ahead, batch + ahead, batches))
                for ahead in range(steps)
            ]
            self._watching.stream.arm(self._details)
            self._timed += 1
            self._waits = (
                any(self._details)
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
            self.cost.ran(ran, sum(detail > 0 for detail in self._details), seconds)
            began = time.perf_counter()
            loss = self._read_loss(logs, ran) if sent else None
            for ahead in sorted(sent):
                pictures = self._details[ahead] == HISTOGRAMS
                self.record(self.step + ahead, sent[ahead], pictures, loss)
            self.step += ran
            self.wrote(time.perf_counter() - began, len(sent))
            self._notice()
            return self._with_headline(logs)
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            self.failed(error)
            return logs

    def act(self) -> None:
        """Does what is to be done about findings that are new; may raise."""
        if self._model is not None:
            self._verdict.act(self._model)

    def act_before_going_on(self) -> None:
        """The same, when all has been looked at; for who must not be late."""
        if self._verdict.ends:
            self.settle()
            self.act()

    def settle(self) -> None:
        """Returns when all that was recorded has been looked at."""
        self._behind.drain()

    def tell(self, finding: Finding) -> None:
        """Keeps a finding that was made elsewhere."""
        self._verdict.keep([finding])
        if self._writer is not None:
            self._writer.finding(finding.step, finding.to_dict(), str(finding))

    def detail(self, moment: Moment) -> int:
        """Returns how much of a step is recorded; asked once for each, in order."""
        if not self._schedule(moment):
            return 0
        return HISTOGRAMS if self._pictures(moment) else SCALARS

    def _read_loss(self, logs: Any, ran: int) -> float | None:
        return None if self._loss is None else self._loss.read(logs, self._batch + ran)

    def record(
        self, step: int, sent: Any, histograms: bool, loss: float | None = None
    ) -> None:
        """Has written what a step sent; the numbers of the whole model are known now.

        Receivers of others get theirs here and now: they may not like threads.
        """
        if self._assembler is None or self._writer is None:
            return
        totals = self._assembler.totals(sent)
        if loss is not None:
            totals["loss"] = loss
        if self.cost.swept is None:
            self.cost.swept = swept(sent)
        labels = self._assembler.labels()
        self.headline |= headline(totals)
        if self._sinks:
            self._finish(step, sent, labels, histograms, totals)
            if self._latest is not None and self._latest.step == step:
                self._sinks.write(step, numbers(self._latest))
        else:
            self._behind.put(step, sent, labels, histograms, totals)

    def wrote(self, seconds: float, records: int) -> None:
        """Notes what the host did, and what was done behind it."""
        if not records:
            return  # what was done behind it counts with the next one
        behind = self._behind.seconds  # only read: the thread adds to it
        self.cost.wrote(seconds + behind - self._counted, records)
        self._counted = behind
        now = time.perf_counter()
        if self._writer is not None and now >= self._says_at:
            self._says_at = now + _SAID_EVERY
            self._writer.note("overhead", {**self.cost.report(), "so_far": True})

    def _finish(
        self, step: int, sent: Any, labels: Labels, histograms: bool, totals: Any
    ) -> None:
        assembler, writer = self._assembler, self._writer  # may be gone meanwhile
        if assembler is None or writer is None:
            return
        record = assembler.record(step, sent, labels, histograms, totals)
        if record is not None:
            self._latest = record
            writer.write(record)
            for finding in self._held_back(self._verdict.see(record)):
                writer.finding(finding.step, finding.to_dict(), str(finding))

    def _held_back(self, found: list[Finding]) -> list[Finding]:
        """Puts aside what somebody else is to look into first."""
        kept = []
        for finding in found:
            if self.holds and finding.symptom == "nonfinite":
                self.held = finding
            else:
                kept.append(finding)
        return self._verdict.keep(kept)

    def _notice(self) -> None:
        if self._behind.failed is not None:
            error, (step, *_) = self._behind.failed
            self.failed(error, step)

    def _with_headline(self, logs: Any) -> Any:
        if not isinstance(logs, dict):
            return logs
        nothing = {"grad_norm": math.nan, "update_ratio": math.nan}
        ours = {**nothing, **self.headline}
        # A `train_step` may tell numbers of its own by these names: they stay.
        self.added = tuple(name for name in ours if name not in logs)
        return {**logs, **{name: ours[name] for name in self.added}}
