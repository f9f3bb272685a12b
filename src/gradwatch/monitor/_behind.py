"""Work that a training step need not wait for."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

WAITING = 64
"""So many jobs may wait; then the one who brings the next waits too."""

LATE = 0.5
"""Seconds that a job may wait; then the one who brings the next waits for all of them.

A process that is killed loses what waits: not more than the last second, however slow
the disk is and however busy the machine.
"""

Jobs = queue.Queue[tuple[float, tuple[Any, ...]] | None]


class Behind:
    """Does one job after the other on a thread of its own.

    While the framework computes a step it holds no lock of Python: what is done then
    does not hold up the next step. The thread starts with the first job, and ends
    when `close` was called; nothing of it is left then, so that what holds this can be
    copied.

    Args:
        job: What is done with what is put.
    """

    def __init__(self, job: Callable[..., None]) -> None:
        self.failed: tuple[Exception, tuple[Any, ...]] | None = None
        """What the first job raised that failed, and its arguments; it is the last."""
        self.seconds = 0.0
        """Of a processor, over all jobs."""
        self._job = job
        self._running: tuple[threading.Thread, Jobs] | None = None
        self._since: float | None = None  # when the job was put that is being done

    def put(self, *arguments: Any) -> None:
        """Has the job done with these arguments, soon."""
        if self._running is None or not self._running[0].is_alive():  # a fork has none
            jobs: Jobs = queue.Queue(WAITING)
            # A daemon: the end of the interpreter does not wait for it.
            thread = threading.Thread(target=self._work, args=[jobs], daemon=True)
            self._running, self._since = (thread, jobs), None
            thread.start()
        jobs, now = self._running[1], time.monotonic()
        if now - self._oldest(jobs, now) > LATE:
            jobs.join()
            now = time.monotonic()
        jobs.put((now, arguments))

    def _oldest(self, jobs: Jobs, now: float) -> float:
        """When the oldest job was put that is not done."""
        since = self._since
        if since is None:
            with jobs.mutex:
                first = jobs.queue[0] if jobs.queue else None
            since = now if first is None else first[0]
        return since

    def drain(self) -> None:
        """Returns when all jobs are done."""
        if self._running is not None and self._running[0].is_alive():
            self._running[1].join()

    def close(self) -> None:
        """Does what waits, and ends the thread.

        The thread itself may call this, where the collector runs on it: it then ends
        after what waits.
        """
        running, self._running = self._running, None
        if running is not None and running[0].is_alive():
            thread, jobs = running
            if thread is not threading.current_thread():
                jobs.put(None)
                thread.join()

    def _work(self, jobs: Jobs) -> None:
        while (job := jobs.get()) is not None:
            self._since, arguments = job
            try:
                if self.failed is None:
                    began = time.thread_time()
                    self._job(*arguments)
                    self.seconds += time.thread_time() - began
            except Exception as error:  # noqa: BLE001 - told to the host, who warns
                self.failed = error, arguments
            finally:
                self._since = None
                jobs.task_done()
            mine = self._running is not None and self._running[1] is jobs
            if not mine and jobs.empty():
                return
