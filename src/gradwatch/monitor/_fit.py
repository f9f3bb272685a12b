"""The taps on a model that `fit` trains."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import keras

from .._keras import EPOCH_LOGS, is_built, step_count
from .._shadow import Shadows
from ..backends import current
from ..select import Wrt
from ._watching import Watching, optimizers_of


@dataclass(frozen=True)
class Told:
    """Who is told what `fit` does.

    Attributes:
        before: So many steps are about to be made.
        after: They are made; gets their logs, and returns them.
        keep: One of them is made on this batch; None if nobody wants it.
        added: Which names of the logs are ours.
        failed: Our own part failed.
        dead: The `fit` is dead.
        alive: Tells whether it runs.
    """

    before: Callable[[int], None]
    after: Callable[[Any], Any]
    keep: Callable[[Any], None] | None
    added: Callable[[], Iterable[str]]
    failed: Callable[[Exception], None]
    dead: Callable[[], None]
    alive: Callable[[], bool]


class Fit:
    """The taps on one model, in or out."""

    def __init__(self, model: Any, wrt: Wrt, told: Told) -> None:
        self.model = model
        self.original = model.train_function
        self.announced = False
        self._told = told
        self._shadows = Shadows()
        self.optimizers = optimizers_of(model)
        self._slots = int(model.steps_per_execution)
        self._trainable = [id(v) for v in model.trainable_variables]
        self.watching = Watching(model, self.optimizers, wrt, told.failed)
        if is_built(model):
            self.watching.resolve()  # a wrong name is said before training starts
        inner = self.watching.train_function(told.before, told.after, told.keep)
        self.function = self._guarded(inner)

    @property
    def iterations(self) -> int:
        """How many steps were made; those that accumulate count.

        Of several optimizers the one that made most of them knows best: Keras gives a
        model one of its own, which a `train_step` with others never uses.
        """
        counts = [step_count(optimizer) for optimizer in self.optimizers]
        return max((int(n.value) for n in counts if n is not None), default=0)

    def fits(self, model: Any) -> bool:
        """Whether what was compiled is what would be compiled now."""
        return (
            [id(o) for o in optimizers_of(model)] == [id(o) for o in self.optimizers]
            and int(model.steps_per_execution) == self._slots
            and (
                current().watching.KEEPS_TRACES
                or [id(v) for v in model.trainable_variables] == self._trainable
            )
        )

    def open(self) -> None:
        """Puts the taps in."""
        self.watching.install()
        self.model.train_function = self.function
        self._shadows.put(self.model, EPOCH_LOGS, self._epoch_logs)

    def close(self) -> None:
        """Takes the taps out."""
        self.watching.remove()
        self._shadows.close()
        if self.model.train_function is self.function:
            self.model.train_function = self.original

    def _epoch_logs(self, own: Callable[[Any], Any], logs: Any) -> Any:
        """What Keras makes of the logs of a step at the end of an epoch, and ours.

        It takes the metrics as they are then, if the logs are of them and nothing else.
        """
        if not isinstance(logs, dict):
            return own(logs)
        ours = {name: logs[name] for name in self._told.added() if name in logs}
        theirs = {name: log for name, log in logs.items() if name not in ours}
        return {**own(theirs), **ours}

    @contextlib.contextmanager
    def untapped(self) -> Iterator[None]:
        """Inside, the model is as if nobody watched it."""
        function = self.model.train_function
        self.close()
        try:
            yield
        finally:
            if function is self.function:
                self.open()

    def info(self) -> dict[str, Any]:
        """What was trained, for whoever opens the run."""
        return {
            "model": self.model.name,
            "parameters": int(self.model.count_params()) if self.model.built else None,
            "optimizers": [type(o).__name__ for o in self.optimizers],
            "backend": keras.backend.backend(),
            "keras": keras.__version__,
        }

    def _guarded(self, inner: Any) -> Any:
        def train_function(*args: Any) -> Any:
            if not self.announced:
                # Called by nobody that told us: by another callback of this `fit`,
                # or the `fit` we belonged to is dead.
                if self._told.alive():
                    with self.untapped():
                        return self.original(*args)
                self._told.dead()
                return self.original(*args)
            self.announced = False
            try:
                return inner(*args)
            except StopIteration:
                raise  # the data is at its end
            except BaseException:
                self._told.dead()
                raise

        return train_function
