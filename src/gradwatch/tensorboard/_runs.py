"""Which runs TensorBoard serves, and what is known of each.

A request names a run; the name is compared with those that TensorBoard has, and that is
all that is done with it. Where a run lies is what TensorBoard says, or its own log
directory with the run's name as TensorBoard has it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..run import FINDINGS, Reader, Store
from ._provided import Provided

PLUGIN = "gradwatch"
_KEPT = 8  # runs in memory
_FRESH = 2.0  # seconds for which a list of runs is good
_READING = 0.35  # seconds that an answer may wait for the disk
_FIRST = 0.12  # the first one, for which somebody waits in front of an empty page
_ANSWERS = 24  # that are kept: whoever comes back to a picture has it at once


class OpenRun:
    """A run in memory, and where more of it comes from.

    Attributes:
        lock: Hold it while looking at the store.
        complete: Whether all that was there has been read.
    """

    def __init__(self, source: Reader | Provided) -> None:
        self.lock = threading.RLock()
        self.complete = False
        self._source = source
        self._answers: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    @property
    def store(self) -> Store:
        """What was read."""
        return self._source.store

    def answer(self, key: tuple[Any, ...], make: Callable[[Store], bytes]) -> bytes:
        """Returns an answer: that of last time, if nothing has changed since."""
        with self.lock:
            key = (self.store.version, *key)
            if key not in self._answers:
                self._answers[key] = make(self.store)
                while len(self._answers) > _ANSWERS:
                    self._answers.popitem(last=False)
            return self._answers[key]

    def read(self) -> None:
        """Reads what is new, for a moment; the rest another time."""
        with self.lock:
            seconds = _READING if self.store.chunks else _FIRST
            if self._source.lost():  # deleted, and perhaps begun anew
                version = self.store.version
                self._source = self._source.again()
                self.store.version = version + 1
            self.complete = self._source.read(seconds)

    @property
    def share(self) -> float:
        """How much of what is there has been read, 0 to 1."""
        if self.complete:
            return 1.0
        read = self._source.done
        return read / max(1, read + self._source.waiting)


class Runs:
    """The runs that TensorBoard serves.

    Args:
        context: What TensorBoard gives its plugins.
    """

    def __init__(self, context: Any) -> None:
        self._provider = context.data_provider
        self._multiplexer = context.multiplexer
        self._logdir = _local(context)
        self._open: OrderedDict[tuple[str, str], OpenRun] = OrderedDict()
        self._lock = threading.Lock()
        self._listed: dict[str, tuple[float, frozenset[str]]] = {}

    def names(self, ctx: Any, experiment: str) -> tuple[list[str], str | None]:
        """Returns the runs that hold something of ours, and with which to begin.

        That is the newest one in which something was found, else the newest.
        """
        listed = self._provider.list_tensors(
            ctx, experiment_id=experiment, plugin_name=PLUGIN
        )
        names = frozenset(run for run, tags in listed.items() if tags)
        self._listed[experiment] = (time.monotonic(), names)
        newest = [
            (FINDINGS in tags, max(s.max_wall_time or 0 for s in tags.values()), run)
            for run, tags in listed.items()
            if tags
        ]
        return sorted(names), max(newest)[2] if newest else None

    def get(self, ctx: Any, experiment: str, name: str) -> OpenRun | None:
        """Returns a run; None if TensorBoard serves none of that name."""
        at, names = self._listed.get(experiment, (float("-inf"), frozenset[str]()))
        if name not in names or time.monotonic() - at > _FRESH:
            names = frozenset(self.names(ctx, experiment)[0])
        if name not in names:
            return None
        key = (experiment, name)
        with self._lock:
            if key not in self._open:
                self._open[key] = OpenRun(self._source(ctx, experiment, name))
            self._open.move_to_end(key)
            while len(self._open) > _KEPT:
                self._open.popitem(last=False)
            return self._open[key]

    def _source(self, ctx: Any, experiment: str, name: str) -> Reader | Provided:
        path = None
        if self._multiplexer is not None:
            path = self._multiplexer.RunPaths().get(name)
        elif self._logdir is not None:
            path = os.path.join(self._logdir, name)
        if path is not None and "://" not in path and Path(path).is_dir():
            return Reader(path)
        return Provided(self._provider, ctx, experiment, name)


def _local(context: Any) -> str | None:
    """Returns the log directory if it is one, and a disk's."""
    flags = context.flags
    logdir = getattr(flags, "logdir", "") or ""
    elsewhere = getattr(flags, "grpc_data_provider", "") or ""
    if not logdir or "://" in logdir or elsewhere:
        return None
    return os.path.abspath(os.path.expanduser(logdir))
