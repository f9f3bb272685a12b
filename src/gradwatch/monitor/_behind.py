"""Work that a training step need not wait for."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

WAITING = 64
"""So many jobs may wait; then the one who brings the next waits too."""


class Behind:
    """Does one job after the other on a thread of its own.

    While the framework computes a step it holds no lock of Python: what is done then
    costs the training next to nothing. The thread starts with the first job, and ends
    when `close` was called.

    Args:
        job: What is done with what is put.
    """

    def __init__(self, job: Callable[..., None]) -> None:
        self.failed: tuple[Exception, tuple[Any, ...]] | None = None
        """What the first job raised that failed, and its arguments; it is the last."""
        self.seconds = 0.0
        """Of a processor, over all jobs."""
        self._job = job
        self._waiting: queue.Queue[tuple[Any, ...] | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None

    def put(self, *arguments: Any) -> None:
        """Has the job done with these arguments, soon."""
        if self._thread is None or not self._thread.is_alive():
            # A fork has no threads; of a daemon's end the interpreter does not wait.
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._waiting.put(arguments)

    def drain(self) -> None:
        """Returns when all jobs are done."""
        if self._thread is not None and self._thread.is_alive():
            self._waiting.join()

    def close(self) -> None:
        """Does what waits, and ends the thread."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._waiting.put(None)
            thread.join()

    def _work(self) -> None:
        while (arguments := self._waiting.get()) is not None:
            try:
                if self.failed is None:
                    began = time.thread_time()
                    self._job(*arguments)
                    self.seconds += time.thread_time() - began
            except Exception as error:  # noqa: BLE001 - told to the host, who warns
                self.failed = error, arguments
            finally:
                self._waiting.task_done()
        self._waiting.task_done()
