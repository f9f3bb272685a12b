"""The trainer's side of a recorded step: says which steps are due, and sends them on.

Everything in this file runs on the thread that trains, one call at a time. What takes
longer is a job for the worker (`_worker.py`); what the worker has to say comes back as
results, which are read when the next step is over, or when a result is asked for.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._errors import GradwatchError
from .._keras import is_built
from ..diagnose import Finding, UnhealthyError
from ..run import Record, RunWriter, Sink, Sinks, numbers
from ._assemble import LossReader, Sent, headline
from ._embedding_rows import EmbeddingRows
from ._failsafe import Caught
from ._model_facts import model_facts
from ._optimizer import HISTOGRAMS, SCALARS
from ._schedule import Cost, Every, Schedule, as_schedule
from ._trainable import warn_of_nothing
from ._watching import Labels, Watching
from ._worker import Judgement, Result, RunKeeper, Worker

OnFinding = str | Callable[[Finding], Any] | None
_WORDS = ("warn", "stop", "raise")


@dataclass
class Training:
    """Parts that belong to one training; the next one gets its own.

    Attributes:
        watching: The taps.
        keeper: The run on disk and the rules. Only jobs of the worker touch it.
        worker: The thread.
        rows: The rows of embeddings, as the training began; None if it could not tell.
        records: Number of records that were written.
        unread: What the newest headline is computed of; None when it has been.
    """

    watching: Watching
    keeper: RunKeeper
    worker: Worker
    rows: EmbeddingRows | None
    records: int = 0
    unread: tuple[Labels, Any] | None = None


class StepRecorder:
    """Decides, collects and hands on; a failure of its own is one warning.

    Args:
        directory: The directory of the run.
        every: When a step is recorded.
        histograms: Which recorded steps hold histograms: all, none, or in the terms of
            `every`.
        sinks: Further receivers.
        on_finding: What is done about a finding.

    Attributes:
        step: The next step to run.
        cost: What watching costs.
        is_heard: Whether any callback reads the logs of each batch.
        failure: What went wrong in gradwatch; nothing is recorded after it.
        held: A finding that waits for an autopsy.
        guard: A context in which a failure ends watching, not the training.
        results: What the worker has to say, which the trainer has not read yet.
        handler: Keeps the findings, and reacts to them.
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
        self.step = 0
        self.cost = Cost()
        self.is_heard = True
        self.guard = Caught(self.failed)
        self.results: deque[Result] = deque()
        self.handler = FindingHandler(on_finding)
        self._newest = {"grad_norm": math.nan, "update_ratio": math.nan}
        self.failure: str | None = None
        self.held: Finding | None = None
        with_histograms: Schedule = lambda *_: bool(histograms)  # noqa: E731
        if not isinstance(histograms, bool):
            with_histograms = as_schedule(histograms, self.cost, "histograms")
        self._schedules = as_schedule(every, self.cost), with_histograms
        # Epochs are rare by themselves: TensorBoard's own tabs show each.
        self._curves_every = 0.0 if "epoch" in (every, histograms) else 1.0
        self._sinks = Sinks(sinks)
        self._latest: Record | None = None
        self._training: Training | None = None

    @property
    def latest(self) -> Record | None:
        """The newest record."""
        self.settle()
        return self._latest

    @property
    def newest(self) -> dict[str, float]:
        """The newest numbers of the whole model that are known at once.

        Computed when they are asked for: on JAX the step may not be over before.
        """
        training = self._training
        if training is not None and training.unread is not None:
            unread, training.unread = training.unread, None
            with self.guard:
                self._newest |= headline(*unread)
        return self._newest

    @property
    def headline(self) -> dict[str, float]:
        """The newest numbers of the whole model, for the logs of Keras.

        Where callbacks read logs at the end of an epoch only, the newest record tells:
        on JAX a step that is still computed is not waited for.
        """
        if not self.is_heard and self.failure is None and self.latest is not None:
            totals = self.latest.totals
            norms = totals.get("global_norm"), totals.get("weight_norm")
            if norms[0] is not None:
                self._newest["grad_norm"] = norms[0]
            if norms[1]:
                self._newest["update_ratio"] = totals["update_norm"] / norms[1]
        return self.newest

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far."""
        self.settle()
        directory = os.fspath(self.directory)
        return tuple(replace(f, directory=directory) for f in self.handler.findings)

    # failures -------------------------------------------------------------------------

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

    # a training begins and ends -------------------------------------------------------

    def begin(
        self,
        watching: Watching,
        info: Mapping[str, Any],
        *,
        holds_nonfinite: bool = False,
    ) -> None:
        """Opens the run, and notes what a diagnosis has to know of the model."""
        self.held = None
        self.handler.begin()
        writer = RunWriter(self.directory, self._curves_every)
        writer.note("run", dict(info))
        self._sinks.start(dict(info))
        facts, rows = None, None
        if is_built(watching.model):
            with self.guard:
                tree, selection, _ = watching.resolve()
                facts = model_facts(tree, selection.weights)
                rows = EmbeddingRows(tree, self.step)
                writer.note("model", facts)
        loss = LossReader(watching.model)
        keeper = RunKeeper(writer, facts, loss, holds_nonfinite=holds_nonfinite)
        self._training = Training(watching, keeper, Worker(self.results), rows)
        self.cost.begin()

    def end(self, *, well: bool = False) -> None:
        """Closes the run, however the training ended.

        The worker's last job closes the file, after everything that was sent before.
        """
        self.settle()
        self.cost.end()
        training, self._training = self._training, None
        if training is None:
            return
        moved = None
        if well and self.failure is None and training.rows is not None:
            with self.guard:
                moved = training.rows.moved()
        last = max(self.step - 1, 0)
        ending = last, moved, self.cost.report()
        training.worker.close(last, training.keeper.finish, ending)
        before = len(self.handler.findings)
        self._collect(training)
        self._sinks.close()
        nothing = not training.records and len(self.handler.findings) == before
        if moved is not None and nothing:
            warn_of_nothing(training.watching.model)

    # a step ---------------------------------------------------------------------------

    def detail(self, step: int, batch: int, batches: int | None) -> int:
        """Returns how much of a step is recorded; asked once for each, in order."""
        due, with_histograms = self._schedules
        if not due(step, batch, batches):
            return 0
        return HISTOGRAMS if with_histograms(step, batch, batches) else SCALARS

    def record(
        self, step: int, sent: Any, histograms: bool, loss: tuple[Any, int] = (None, 0)
    ) -> None:
        """Hands what a step sent to the worker; only the headline is computed here.

        The trainer waits where there are sinks: they are called on its own thread, as
        trackers may not work on another, and at this step.
        """
        training = self._training
        if training is None:
            return
        labels = training.watching.labels
        if self.is_heard:
            training.unread = labels, sent
        item = Sent(step, sent, labels, histograms, *loss)
        training.worker.put(step, training.keeper.record, item)
        if self._sinks:
            training.worker.drain()
            self._collect(training)
            if self._latest is not None and self._latest.step == step:
                self._sinks.write(step, numbers(self._latest))

    def wrote(self, seconds: float, records: int) -> None:
        """Notes what the trainer's side took for records, and collects results."""
        training = self._training
        if training is not None and self.results:
            self._collect(training)
        self.cost.wrote(seconds, records)
        if training is not None and self.cost.is_report_due():
            report = {**self.cost.report(), "so_far": True}
            training.worker.put(self.step, training.keeper.note, ("overhead", report))

    def took(self, seconds: float | None) -> None:
        """Notes the time from the beginning of the latest execution to the next."""
        if self._training is not None:
            worker = self._training.worker
            self.cost.took(seconds, worker.bursts, idle=worker.is_idle)

    def settle(self) -> None:
        """Returns when all that was recorded has been judged."""
        if self._training is not None:
            self._training.worker.drain()
            self._collect(self._training)

    def _collect(self, training: Training) -> None:
        """Takes in what the worker says: the trainer's state changes only here."""
        while self.results:  # one by one: the worker may append at any moment
            result = self.results.popleft()
            if result.error is not None:
                self.failed(result.error, result.step)
                continue
            outcome: Judgement = result.value
            self._latest = outcome.record or self._latest
            training.records += outcome.records
            for finding in outcome.findings:
                if training.keeper.holds(finding):
                    self.held = finding
                else:
                    self.handler.add(finding)

    # findings -------------------------------------------------------------------------

    def add_finding(self, finding: Finding) -> None:
        """Adds a finding that was made elsewhere."""
        self.handler.add(finding)
        training = self._training
        if training is not None:
            training.worker.put(finding.step, training.keeper.add, finding)

    def act(self, model: Any) -> None:
        """Does what is to be done about new findings; may raise."""
        if self._training is not None:
            self._collect(self._training)
        self.handler.act(model)

    def act_at_epoch_end(self, model: Any) -> None:
        """Waits for the worker where a finding ends the training, then acts.

        A training that is to end does not go on into another epoch.
        """
        if self.handler.ends:
            self.settle()
            self.act(model)


class FindingHandler:
    """Keeps findings, and reacts to each once, on the thread that trains.

    Args:
        on_finding: "warn", "stop" (the training ends well), "raise", a function of the
            finding, or None to only keep it.
    """

    def __init__(self, on_finding: OnFinding) -> None:
        words = on_finding is None or on_finding in _WORDS
        if not words and not callable(on_finding):
            raise GradwatchError(
                '`on_finding` must be "warn", "stop", "raise", a function of a '
                f"finding, or None. Received: {on_finding!r}. With None, findings "
                "are recorded and nothing else is done."
            )
        self.findings: list[Finding] = []
        self._on_finding = on_finding
        self.new: list[Finding] = []
        """Findings that were not acted on."""
        self._begins = 0  # index of the first finding of this training

    @property
    def ends(self) -> bool:
        """True if a finding ends the training."""
        return self._on_finding in ("stop", "raise")

    def begin(self) -> None:
        """Begins with another training: a finding that it repeats is a new one."""
        self._begins = len(self.findings)

    def add(self, finding: Finding) -> None:
        """Keeps a finding until it is acted on.

        One that was kept before comes again when it has ended: it takes the place of
        the first, and is not acted on again.
        """
        for index in range(self._begins, len(self.findings)):
            if self.findings[index].identity == finding.identity:
                self.findings[index] = finding
                return
        self.findings.append(finding)
        if self._on_finding is not None:
            self.new.append(finding)

    def act(self, model: Any) -> None:
        """Reacts to the findings that are new.

        Raises:
            UnhealthyError: If that was asked for.
        """
        new, self.new = self.new, []
        if not new:
            return
        if self._on_finding == "raise":
            raise UnhealthyError(tuple(new))
        for finding in new:
            if callable(self._on_finding):
                self._on_finding(finding)
            else:
                warnings.warn(f"gradwatch: {finding}", UnhealthyTraining, stacklevel=2)
        if self._on_finding == "stop":
            model.stop_training = True


class UnhealthyTraining(UserWarning):
    """Something is wrong with a training; the message is the finding.

    Example:
    >>> import gradwatch as gw
    >>> issubclass(gw.UnhealthyTraining, UserWarning)
    True
    """
