"""The worker's side of recorded steps: rows are assembled, written and judged here.

Two threads take part in watching. The trainer's thread runs `fit` or the loop; it must
wait as little as possible, so it only fetches what the step has measured and appends a
job to a queue (`StepRecorder` in `_recorder.py`). The worker thread lets jobs gather
for a moment, then takes all that wait: it assembles the rows of those steps into
records, writes them to disk with one call, and runs the rules of the diagnosis on them.
To wake up for each step would cost a short step more than the work itself: both threads
want Python's lock.

Each side owns its state, and everything else travels through one of two queues:

    trainer  ─ jobs ─────▶  worker   what steps sent, notes, findings of an autopsy
    trainer  ◀── results ─  worker   the newest record, new findings, errors

`RunKeeper` (the file, the rules, the layouts) is used by the worker alone once the
first job was put; the trainer gets it back when the thread has ended.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ..diagnose import Finding, RuleEngine
from ..run import Record, RunWriter
from ._assemble import Assembler, LossReader, Sent
from ._failsafe import Caught

MAX_QUEUED = 2048
"""Maximum number of waiting jobs; the trainer then waits for all of them."""

MAX_SECONDS = 0.5
"""Seconds that a job may wait; the trainer then waits for all of them.

A process that is killed loses what waits: no more than the last second, however slow
the disk is and however busy the machine.
"""

PAUSE = 0.2
"""Seconds in which jobs gather; the worker begins early if half a queue has."""


@dataclass
class Judgement:
    """The result of some jobs.

    Attributes:
        record: The newest record that was written.
        records: Number of records that were.
        findings: The findings that are new with them.
    """

    record: Record | None = None
    records: int = 0
    findings: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """An item for a function of the worker thread.

    Attributes:
        step: The training step that it belongs to.
        work: Called with the items of all jobs in a row that have this function.
        item: The item.
        last: Whether the thread ends after it. The last job is done even if one before
            it failed: it closes the file.
    """

    step: int
    work: Callable[[list[Any]], Any]
    item: Any
    last: bool = False


@dataclass
class Result:
    """The outcome of jobs that were done together.

    Attributes:
        step: The training step of the first of them.
        value: What the call has returned.
        error: What it raised, if it did.
    """

    step: int
    value: Any = None
    error: Exception | None = None


class Worker:
    """Does jobs in their order on a thread of its own, those of one kind together.

    The thread starts with the first job and ends with `close`. Without it this object
    holds no lock, so that a monitor at rest can be copied.

    Args:
        results: Gets one result for the jobs that were done together, in their order
            (default: a new one).

    Attributes:
        results: One result for the jobs that were done together, in their order. The
            thread appends, the trainer takes them out.
        bursts: Number of times that the thread began to work, and ended: odd while it
            works.
    """

    def __init__(self, results: deque[Result] | None = None) -> None:
        self.results = deque() if results is None else results
        self.bursts = 0
        self._thread: threading.Thread | None = None
        self._queue: _Queue | None = None

    def put(self, step: int, work: Callable[[list[Any]], Any], item: Any) -> None:
        """Has a job done soon; waits first if too many wait, or one for too long."""
        queue = self._running() or self._start()
        if queue.is_late():
            queue.join()
        queue.put(Job(step, work, item))

    @property
    def is_idle(self) -> bool:
        """True if all jobs are done."""
        queue = self._queue
        return queue is None or queue.total == queue.completed

    def drain(self) -> None:
        """Returns when all jobs are done."""
        queue = self._running()
        if queue is not None and self._thread is not threading.current_thread():
            queue.join()

    def close(self, step: int, work: Callable[[list[Any]], Any], item: Any) -> None:
        """Does what waits, then a last job, and ends the thread.

        The garbage collector may find a dead training on any thread, this one too, and
        close what watched it. A thread cannot wait for itself: it then goes on with
        what waits, and ends after the last job.
        """
        job, queue = Job(step, work, item, last=True), self._running()
        thread, self._thread, self._queue = self._thread, None, None
        if queue is None or thread is None:
            self._do([job])
            return
        queue.put(job)
        queue.hurry()
        if thread is not threading.current_thread():
            thread.join()

    def _running(self) -> _Queue | None:
        """Returns the queue, if the thread runs. In a forked process it does not."""
        alive = self._thread is not None and self._thread.is_alive()
        return self._queue if alive else None

    def _start(self) -> _Queue:
        self._queue = _Queue()
        # A daemon: the end of the interpreter does not wait for it.
        self._thread = threading.Thread(
            target=self._work, args=[self._queue], name="gradwatch worker", daemon=True
        )
        self._thread.start()
        return self._queue

    # on the worker thread -------------------------------------------------------------

    def _work(self, queue: _Queue) -> None:
        failed = last = False
        while not last:
            jobs = queue.take()
            last = any(job.last for job in jobs)
            self.bursts += 1
            for _, alike in groupby(jobs, key=lambda job: (job.work, job.last)):
                together = list(alike)
                if together[0].last or not failed:  # else a record would have a gap
                    failed |= self._do(together)
            self.bursts += 1
            # Only now: the trainer that waits in `join` finds the results.
            queue.done(len(jobs))

    def _do(self, jobs: list[Job]) -> bool:
        """Does jobs of one kind, and reports on them; returns whether that failed."""
        result = Result(jobs[0].step)

        def fail(error: Exception) -> None:
            result.error = error

        with Caught(fail):
            result.value = jobs[0].work([job.item for job in jobs])
        self.results.append(result)
        return result.error is not None


class _Queue:
    """Jobs on their way to the worker: the trainer appends, the worker takes all.

    Appending wakes the worker only if nothing waited, or much does.
    """

    def __init__(self) -> None:
        # Loops on TensorFlow and JAX put from other threads than the trainer's.
        # Reentrant: the garbage collector may close a training inside.
        self._lock = threading.RLock()
        self._jobs: deque[Job] = deque()
        self.total, self.completed = 0, 0
        """Number of jobs that were put, and that are done."""
        self._oldest = 0.0  # when the first of those that wait was put
        self._is_there, self._is_urgent = threading.Event(), threading.Event()
        self._progress = threading.Condition()

    def put(self, job: Job) -> None:
        """Appends a job."""
        with self._lock:
            if self.total == self.completed:
                self._oldest = time.monotonic()
            self.total += 1
            self._jobs.append(job)
            waiting = len(self._jobs)
        if waiting == 1:
            self._is_there.set()
        elif waiting == MAX_QUEUED // 2:
            self.hurry()

    def is_late(self) -> bool:
        """Returns whether too many jobs wait, or one of them for too long."""
        waiting = self.total - self.completed
        late = time.monotonic() - self._oldest > MAX_SECONDS
        return waiting > MAX_QUEUED or (waiting > 0 and late)

    def hurry(self) -> None:
        """Has the worker begin at once."""
        self._is_urgent.set()

    def join(self) -> None:
        """Returns when everything that was put is done."""
        wanted = self.total
        self.hurry()
        with self._progress:
            self._progress.wait_for(lambda: self.completed >= wanted)

    # on the worker thread -------------------------------------------------------------

    def take(self) -> list[Job]:
        """Waits for jobs, lets more of them gather, and returns all."""
        self._is_there.wait()
        self._is_urgent.wait(PAUSE)
        # Cleared before jobs are taken: one that is put meanwhile sets them anew.
        self._is_there.clear()
        self._is_urgent.clear()
        jobs = []
        while self._jobs:
            jobs.append(self._jobs.popleft())
        self._oldest = time.monotonic()
        return jobs

    def done(self, count: int) -> None:
        """Notes that this number of jobs is done, and wakes up `join`."""
        with self._progress:
            self.completed += count
            self._progress.notify_all()


class RunKeeper:
    """Makes a run of what the steps sent; used by the worker thread only.

    Args:
        writer: The file of the run.
        facts: What is known of the model, for the rules; None for nothing.
        loss: Reads the losses in the logs of Keras.
        holds_nonfinite: Whether findings of non-finite values are not written: an
            autopsy on the trainer's side says more about them, and sends its own.
    """

    def __init__(
        self,
        writer: RunWriter,
        facts: Mapping[str, Any] | None,
        loss: LossReader,
        *,
        holds_nonfinite: bool,
    ) -> None:
        self._writer = writer
        self._loss = loss
        self._rules = RuleEngine(facts)
        self._holds_nonfinite = holds_nonfinite
        self._assembler = Assembler()

    def record(self, steps: Sequence[Sent]) -> Judgement:
        """Writes the records of steps, then runs the rules on them."""
        losses = [self._loss.read(sent.loss, sent.batches) for sent in steps]
        records = list(self._assembler.records(steps, losses))
        self._writer.write(*records)
        outcome = Judgement(records[-1] if records else None, len(records))
        for record in records:
            findings = self._rules.read(record)
            self._add([f for f in findings if not self.holds(f)], record.step)
            outcome.findings += findings
        return outcome

    def holds(self, finding: Finding) -> bool:
        """Returns whether a finding waits for an autopsy."""
        return self._holds_nonfinite and finding.symptom == "nonfinite"

    def add(self, findings: Sequence[Finding]) -> Judgement:
        """Writes findings that were made elsewhere."""
        for finding in findings:
            self._add([finding], finding.step)
        return Judgement()

    def note(self, notes: Sequence[tuple[str, Any]]) -> Judgement:
        """Writes notes: names and facts."""
        for name, facts in notes:
            self._writer.note(name, facts)
        return Judgement()

    def _add(self, findings: list[Finding], step: int) -> None:
        """Writes findings; the end of one belongs to the step that shows it."""
        for finding in findings:
            at = finding.step if finding.until is None else step
            self._writer.finding(at, finding.to_dict(), str(finding))

    def finish(self, endings: Sequence[tuple[int, Any, dict[str, Any]]]) -> Judgement:
        """Writes what the end of a training shows, and closes the file.

        Args:
            endings: One: the last step, the rows of embeddings that have moved (None if
                the training failed), and what watching has cost.
        """
        [(step, moved, overhead)] = endings
        findings: list[Finding] = []
        try:
            if moved:
                self._writer.note("rows", moved)
            if moved is not None:
                findings = self._rules.read_notes({"rows": moved}, step)
                self._add(findings, step)
            self._writer.note("overhead", overhead)
        finally:
            self._writer.close()
        return Judgement(findings=findings)
