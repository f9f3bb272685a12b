"""The worker's side of a recorded step: rows are assembled, written and judged here.

Two threads take part in watching. The trainer's thread runs `fit` or the loop; it must
wait as little as possible, so it only fetches what the step has measured and puts a job
on a queue (`StepRecorder` in `_recorder.py`). The worker thread takes the jobs in their
order: it assembles the rows of the step into a record, writes the record to disk and
runs the rules of the diagnosis on it. While the framework computes the next step it
does not hold Python's lock, and the worker makes use of that time.

Each side owns its state, and everything else travels through one of two queues:

    trainer  ─ jobs ─────▶  worker   what a step sent, notes, findings of an autopsy
    trainer  ◀── results ─  worker   the record, new findings, seconds, errors

`RunKeeper` (the file, the rules, the layouts) is used by the worker alone once the
first job was put; the trainer gets it back when the thread has ended. Of `Worker`
itself the thread only reads the queue it was started with and appends to `results`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..diagnose import Finding, RuleEngine
from ..run import Record, RunWriter
from ._assemble import Assembler, Labels
from ._failsafe import caught

MAX_QUEUED = 64
"""Maximum number of waiting jobs; the trainer then waits for all of them."""

MAX_SECONDS = 0.5
"""Seconds that a job may wait; the trainer then waits for all of them.

A process that is killed loses what waits: no more than the last second, however slow
the disk is and however busy the machine.
"""

Outcome = tuple[Record | None, list[Finding]]
"""The record that a job has written, and the findings that are new with it."""


@dataclass
class Job:
    """A call for the worker thread.

    Attributes:
        step: The training step that it belongs to.
        work: The call.
        last: Whether the thread ends after it. The last job is done even if one before
            it failed: it closes the file.
    """

    step: int
    work: Callable[[], Any]
    last: bool = False


@dataclass
class Result:
    """The outcome of a job.

    Attributes:
        step: The training step that it belongs to.
        value: What the call has returned.
        error: What it raised, if it did.
    """

    step: int
    value: Any = None
    error: Exception | None = None


class Worker:
    """Does one job after another on a thread of its own.

    The thread starts with the first job and ends with `close`. Without it this object
    holds no lock and no queue, so that a monitor at rest can be copied.

    Attributes:
        results: One result for each job that was done, in their order. The thread
            appends, the trainer takes them out.
    """

    def __init__(self) -> None:
        self.results: deque[Result] = deque()
        self._thread: threading.Thread | None = None
        self._jobs: queue.Queue[Job] | None = None
        # When the latest jobs were put: those waiting, the one in work, the new one.
        self._put_at: deque[float] = deque(maxlen=MAX_QUEUED + 2)

    def put(self, step: int, work: Callable[[], Any]) -> None:
        """Has a call made soon; waits first if too many wait, or one for too long."""
        jobs = self._running() or self._start()
        unfinished = jobs.unfinished_tasks
        late = unfinished and time.monotonic() - self._put_at[-unfinished] > MAX_SECONDS
        if late or unfinished > MAX_QUEUED:
            jobs.join()
        self._put_at.append(time.monotonic())
        jobs.put(Job(step, work))

    def drain(self) -> None:
        """Returns when all jobs are done."""
        jobs = self._running()
        if jobs is not None and self._thread is not threading.current_thread():
            jobs.join()

    def close(self, step: int, work: Callable[[], Any]) -> None:
        """Does what waits, then a last job, and ends the thread.

        The garbage collector may find a dead training on any thread, this one too, and
        close what watched it. A thread cannot wait for itself: it then goes on with
        what waits, and ends after the last job.
        """
        job, jobs = Job(step, work, last=True), self._running()
        thread, self._thread, self._jobs = self._thread, None, None
        if jobs is None or thread is None:
            self._do(job)
            return
        jobs.put(job)
        if thread is not threading.current_thread():
            thread.join()

    def _running(self) -> queue.Queue[Job] | None:
        """Returns the queue, if the thread runs. In a forked process it does not."""
        alive = self._thread is not None and self._thread.is_alive()
        return self._jobs if alive else None

    def _start(self) -> queue.Queue[Job]:
        # Without a limit: what closes on the thread itself must not wait for room.
        self._jobs = queue.Queue()
        # A daemon: the end of the interpreter does not wait for it.
        self._thread = threading.Thread(
            target=self._work, args=[self._jobs], name="gradwatch worker", daemon=True
        )
        self._thread.start()
        return self._jobs

    # on the worker thread -------------------------------------------------------------

    def _work(self, jobs: queue.Queue[Job]) -> None:
        failed = False
        while True:
            job = jobs.get()
            if job.last or not failed:  # a record after a failure would have a gap
                failed |= self._do(job)
            # Only now: who waits in `join` finds the result.
            jobs.task_done()
            if job.last:
                return

    def _do(self, job: Job) -> bool:
        """Does a job, and reports on it; returns whether it failed."""
        result = Result(job.step)

        def fail(error: Exception) -> None:
            result.error = error

        with caught(fail):
            result.value = job.work()
        self.results.append(result)
        return result.error is not None


class RunKeeper:
    """Makes a run of what the steps sent; used by the worker thread only.

    Args:
        writer: The file of the run.
        facts: What is known of the model, for the rules; None for nothing.
        holds_nonfinite: Whether findings of non-finite values are not written: an
            autopsy on the trainer's side says more about them, and sends its own.
    """

    def __init__(
        self,
        writer: RunWriter,
        facts: Mapping[str, Any] | None,
        *,
        holds_nonfinite: bool,
    ) -> None:
        self._writer = writer
        self._rules = RuleEngine(facts)
        self._holds_nonfinite = holds_nonfinite
        self._assembler = Assembler()

    def record(
        self,
        step: int,
        sent: Any,
        labels: Labels,
        histograms: bool,
        loss: float | None,
    ) -> Outcome:
        """Writes the record of a step, then runs the rules on it."""
        record = self._assembler.record(step, sent, labels, histograms, loss)
        if record is None:
            return None, []
        self._writer.write(record)
        findings = self._rules.read(record)
        self.add([f for f in findings if not self.holds(f)], step)
        return record, findings

    def holds(self, finding: Finding) -> bool:
        """Returns whether a finding waits for an autopsy."""
        return self._holds_nonfinite and finding.symptom == "nonfinite"

    def add(self, findings: list[Finding], step: int) -> Outcome:
        """Writes findings; the end of one belongs to the step that shows it."""
        for finding in findings:
            at = finding.step if finding.until is None else step
            self._writer.finding(at, finding.to_dict(), str(finding))
        return None, []

    def note(self, name: str, value: Any) -> Outcome:
        """Writes a note."""
        self._writer.note(name, value)
        return None, []

    def finish(self, step: int, moved: Any, overhead: dict[str, Any]) -> Outcome:
        """Writes what the end of a training shows, and closes the file.

        Args:
            step: The last one.
            moved: Rows of embeddings that have moved; None if the training failed.
            overhead: What watching has cost.
        """
        findings: list[Finding] = []
        try:
            if moved:
                self._writer.note("rows", moved)
            if moved is not None:
                findings = self._rules.read_notes({"rows": moved}, step)
                self.add(findings, step)
            self._writer.note("overhead", overhead)
        finally:
            self._writer.close()
        return None, findings
