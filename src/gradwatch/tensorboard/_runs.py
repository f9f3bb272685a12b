"""The runs that TensorBoard serves.

A request names a run; the name is compared with those that TensorBoard has, and nothing
else is done with it. The directory of a run is the one that TensorBoard reports, or its
own log directory with the run's name as TensorBoard has it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..run import FINDINGS, Reader, Run
from ._provided import Provided

PLUGIN = "gradwatch"
_KEPT = 8  # runs in memory
_FRESH = 2.0  # seconds for which a list of runs is good
_READING = 0.35  # seconds that an answer may wait for the disk
_FIRST = 0.12  # seconds for the first answer, before which the page is empty
_ANSWERS = 24  # answers that are kept: going back to a picture is immediate


Picture = Callable[[Run, Mapping[str, str]], bytes]
"""Returns the numbers of a picture, by the arguments of a request."""


class ServedRun:
    """A run in memory, which several requests may ask at once.

    Attributes:
        run: The run.
        lock: Must be held while the run is read from or refreshed.
        answer: Returns the numbers of a picture: those of before, if they are of the
            same version of the run.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.lock = threading.RLock()
        # The number of a version is part of the key: nothing that is kept is outdated.
        self.answer = lru_cache(_ANSWERS)(
            lambda _, picture, asked: picture(run, dict(asked))
        )

    def refresh(self, *, always: bool) -> None:
        """Reads what is new, for a short time; the rest with the next request.

        Args:
            always: False to read only if there is no record yet.
        """
        with self.lock:
            empty = not len(self.run.store)
            if always or empty:
                self.run.refresh(_FIRST if empty else _READING)


class Runs:
    """The runs that TensorBoard serves.

    Args:
        context: The context that TensorBoard gives its plugins.
    """

    def __init__(self, context: Any) -> None:
        self._provider = context.data_provider
        self._multiplexer = context.multiplexer
        flags = context.flags
        logdir = getattr(flags, "logdir", "") or ""
        # The log directory, if it is on a local disk.
        elsewhere = getattr(flags, "grpc_data_provider", "") or "://" in logdir
        known = logdir and not elsewhere
        self._logdir = os.path.abspath(os.path.expanduser(logdir)) if known else ""
        self._open: OrderedDict[tuple[str, str], ServedRun] = OrderedDict()
        self._lock = threading.Lock()
        self._listed: dict[str, tuple[float, frozenset[str]]] = {}

    def names(self, ctx: Any, experiment: str) -> tuple[list[str], str | None]:
        """Returns the runs that hold something of ours, and the one to begin with.

        That is the newest run with a finding, else the newest.
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

    def get(self, ctx: Any, experiment: str, name: str) -> ServedRun | None:
        """Returns a run; `None` if TensorBoard serves none of that name."""
        at, names = self._listed.get(experiment, (float("-inf"), frozenset[str]()))
        if name not in names or time.monotonic() - at > _FRESH:
            names = frozenset(self.names(ctx, experiment)[0])
        if name not in names:
            return None
        key = (experiment, name)
        with self._lock:
            if key not in self._open:
                path = os.path.join(self._logdir, name) if self._logdir else ""
                if self._multiplexer is not None:
                    path = self._multiplexer.RunPaths().get(name) or ""
                source: Reader | Provided
                source = Provided(self._provider, ctx, experiment, name)
                if path and "://" not in path and Path(path).is_dir():
                    source = Reader(path)
                self._open[key] = ServedRun(Run(source))
            self._open.move_to_end(key)
            while len(self._open) > _KEPT:
                self._open.popitem(last=False)
            return self._open[key]
