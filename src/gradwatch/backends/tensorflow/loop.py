"""The same for a training loop of the user's own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .._protocol import Parts, Tensor
from .stream import Stream, variable


class LoopStream(Stream):
    """For a loop of the user's own, whose compiled steps nobody tells the host of.

    The steps count themselves, read from a table ahead whether they are due, and write
    into a ring of slots. A thread empties the ring and fills the table. It works in
    eager steps, in a `tf.function`, and under XLA.

    Args:
        ask: Gives the detail of a step, by its number.
        receive: Gets what a step sent, its number and its detail.
        start: The number of the first step.
        foreseen: Whether `ask` can be asked of steps to come. If not, it is asked now
            and then, and the next step after a yes is recorded.
    """

    TABLE, RING, PAUSE = 1024, 128, 0.01

    def __init__(
        self,
        ask: Callable[[int], int],
        receive: Callable[[int, dict[str, Parts], int], None],
        start: int,
        foreseen: bool = True,
    ) -> None:
        super().__init__(self.RING)
        self._ask, self._receive, self._start = ask, receive, start
        self._foreseen = foreseen
        self._count = variable(np.zeros((), np.int64))
        self._table = variable(np.zeros(self.TABLE, np.int32))
        self._written = variable(np.zeros(self.RING, np.int64))
        self._flags: list[int] = []
        self._read = 0
        self._own: int | None = None
        self._waiting = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost = 0
        """Records that were overwritten before they could be read."""

    def due(self, detail: int) -> Any:
        """Whether this much is recorded."""
        if tf.executing_eagerly():
            if self._own is None:
                self._own = self._ask(self._start + int(self._count))
            return self._own >= detail
        if self._thread is None:
            with tf.init_scope():  # out of what is being traced
                self._refill()
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()
        place = tf.convert_to_tensor(self._count) % self.TABLE
        return tf.gather(tf.convert_to_tensor(self._table), place) >= detail

    def applied(self) -> None:
        """The step is over."""
        if tf.executing_eagerly():
            sent, self._eager = (self._eager or [{}])[0], []
            detail, self._own = self._own or 0, None
            self._receive(self._start + int(self._count), sent, detail)
            self._count.assign_add(1)
            return

        def wrote() -> Tensor:
            place = tf.reshape(self._slot, (1,))
            stamp = tf.reshape(self._count + 1, (1,))
            self._written.scatter_update(tf.IndexedSlices(stamp, place))
            self._slot.assign((self._slot + 1) % self.RING)
            if not self._foreseen:
                self._table.assign(tf.zeros_like(self._table))
            return tf.constant(0)

        tf.cond(self.due(1), wrote, lambda: tf.constant(0))
        self._count.assign_add(1)

    def _follow(self) -> None:
        while not self._stop.wait(self.PAUSE):
            with contextlib.suppress(Exception):  # The interpreter may be ending.
                self._drain()

    def _refill(self) -> None:
        """Asks for the steps ahead; those behind make room."""
        if not self._foreseen:
            if not self._waiting:
                self._waiting = self._ask(self._start + int(self._count))
                if self._waiting:
                    self._table.assign(np.full(self.TABLE, self._waiting, np.int32))
            return
        ahead = int(self._count) + self.TABLE
        if len(self._flags) >= ahead:
            return
        while len(self._flags) < ahead:
            self._flags.append(self._ask(self._start + len(self._flags)))
        table = np.zeros(self.TABLE, np.int32)
        for step in range(ahead - self.TABLE, ahead):
            table[step % self.TABLE] = self._flags[step]
        self._table.assign(table)

    def _drain(self) -> None:
        with self._lock:
            self._refill()
            written = self._written.numpy()
            fresh = sorted(int(stamp) for stamp in written if stamp > self._read)
            if not fresh:
                return
            lines = {key: box.read() for key, box in self._boxes.items()}
            after = self._written.numpy()
            for stamp in fresh:
                slot = int(np.flatnonzero(written == stamp)[0])
                if after[slot] != stamp:
                    self.lost += 1  # overtaken while being read
                    continue
                # One that stayed silent at this step left what was there before.
                sent = {
                    key: self._boxes[key].parts(found[slot])
                    for key, found in lines.items()
                    if self._boxes[key].is_new(slot, found[slot])
                }
                step = stamp - 1
                detail = self._flags[step] if self._foreseen else self._waiting
                self._receive(self._start + step, sent, detail)
            self._read, self._waiting = fresh[-1], 0

    @property
    def ran(self) -> int:
        """How many steps there were."""
        return int(self._count)

    def close(self) -> None:
        """Reads what is left; then nothing is due any more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._drain()
        self._table.assign(np.zeros(self.TABLE, np.int32))
