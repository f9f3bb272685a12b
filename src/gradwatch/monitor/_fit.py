"""The taps on a model that `fit` trains, and on the `fit` itself."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from .._keras import (
    BATCH_SOURCES,
    hears_batches,
    is_built,
    running_fit,
    step_count,
)
from .._shadow import Shadows
from ..backends import current
from ..select import Wrt
from ._optimizer import HISTOGRAMS
from ._recorder import StepRecorder
from ._watching import Watching, optimizers_of

_CALLBACK_HOOKS = (
    *("on_epoch_begin", "on_epoch_end", "on_train_batch_begin", "on_train_batch_end"),
    *("on_test_begin", "on_test_end", "on_test_batch_begin", "on_test_batch_end"),
    "on_train_end",
)
_AT_EPOCH = ("on_epoch_end", "on_train_end")


class FitHooks:
    """Shadows on the objects that one `fit` made for itself: callback list and batches.

    They do two things that a callback cannot do by itself.

    `on_train_end` is called when a `fit` succeeds. When it does not, the error leaves
    through one of three doors: the train function (which is ours), a callback, or the
    data. The latter two are these objects. An interruption between two calls gets past
    all three, and is noticed when the list of callbacks is collected, or when the model
    is trained again.

    And the headline is added to the logs that the list hands to its callbacks, so that
    all of them see it, whatever their order: at the end of a batch by a callback that
    is the first of them (`Headline`). `fit` itself keeps the logs without it: Keras
    asks the metrics again at the end of an epoch only if the logs hold nothing else.

    Args:
        fail: Called when the `fit` has failed.
        recorder: Knows the numbers to add to the logs.
    """

    def __init__(self, fail: Callable[[], None], recorder: StepRecorder) -> None:
        self.fail = fail
        self._recorder = recorder
        self._depth = 0
        # Only the objects of `fit` hold the shadows, and both go together: if this
        # held them, the list of callbacks would never be collected.
        self._shadows: Callable[[], Shadows | None] = lambda: None
        self._headline = Headline(recorder)

    @property
    def in_callback(self) -> bool:
        """True while a callback of this `fit` runs."""
        return self._depth > 0

    def attach(self) -> bool:
        """Shadows the objects of the `fit` that is calling.

        Returns:
            Whether any callback reads the logs of each batch.
        """
        callbacks, batches = running_fit()
        if callbacks is None:
            return True
        heard = hears_batches(callbacks)
        calls = dict.fromkeys(_AT_EPOCH, self._call_at_epoch)
        if heard:
            self._headline.join(callbacks)
        shadows = Shadows(everywhere=True)
        attached = self._shadows = weakref.ref(shadows)

        def collected() -> None:
            # The list of an earlier `fit` may be collected during a later one.
            if self._shadows is attached:
                self.fail()

        weakref.finalize(callbacks, collected).atexit = False
        for hook in _CALLBACK_HOOKS:
            shadows.put(callbacks, hook, calls.get(hook, self._call))
        around = (self._batches, self._catch)
        for method, shadow in zip(BATCH_SOURCES, around, strict=True):
            if hasattr(batches, method):
                shadows.put(batches, method, shadow)
        return heard

    def detach(self) -> None:
        """Takes the shadows away."""
        shadows, self._shadows = self._shadows(), lambda: None
        self._headline.leave()
        if shadows is not None:
            shadows.close()

    def _call(self, own: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Runs a hook of all callbacks."""
        self._depth += 1
        try:
            return own(*args, **kw)
        except BaseException:
            self.fail()
            raise
        finally:
            self._depth -= 1

    def _call_at_epoch(self, own: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Runs a hook at the end of an epoch, or of the training."""
        ours = self._recorder.headline
        args = tuple(_joined(arg, ours) for arg in args)
        kw = {name: _joined(arg, ours) for name, arg in kw.items()}
        return self._call(own, *args, **kw)

    def _batches(self, own: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        with self._noticing():
            yield from own()

    @contextlib.contextmanager
    def _catch(self, own: Callable[[], Any]) -> Iterator[None]:
        with self._noticing(), own():
            yield

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except GeneratorExit:
            raise  # the loop over the batches was left, as `stop_training` does
        except BaseException:
            self.fail()
            raise


class Headline(keras.callbacks.Callback):
    """Adds the headline to the logs of a batch; the first callback of a list.

    All callbacks of a list get the same logs, which Keras makes for each batch.

    Args:
        recorder: Knows the numbers.
    """

    def __init__(self, recorder: StepRecorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._owner: Any = None

    def join(self, owner: Any) -> None:
        """Becomes the first callback of a list.

        Keras may be going through the callbacks: their list is replaced, not changed.
        """
        self._owner = weakref.ref(owner)
        owner.callbacks = [self, *owner.callbacks]

    def leave(self) -> None:
        """Goes away."""
        owner, self._owner = self._owner and self._owner(), None
        if owner is not None:
            owner.callbacks = [one for one in owner.callbacks if one is not self]

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Adds the numbers, which never replace those of the user."""
        del batch
        if logs is not None:
            for name, number in self._recorder.newest.items():
                logs.setdefault(name, number)


def _joined(logs: Any, ours: Mapping[str, float]) -> Any:
    """Returns logs with our numbers, which never replace those of the user."""
    return {**logs, **ours, **logs} if isinstance(logs, dict) else logs


class FitSteps:
    """Arms the steps of each execution of the train function, and records them.

    Args:
        recorder: Takes what was sent.
        watching: The taps.

    Attributes:
        batch: The number of the next batch in its epoch.
        batches: Number of batches in an epoch; None where it is not known.
    """

    def __init__(self, recorder: StepRecorder, watching: Watching) -> None:
        self._recorder = recorder
        self._watching = watching
        self.batch = 0
        self.batches: int | None = None
        self._details: list[int] = []
        self._began: float | None = None

    def begin(self, batches: int | None) -> None:
        """Forgets what belonged to an earlier `fit`."""
        self._began, self.batches = None, batches

    def before(self, steps: int) -> None:
        """Arms the next steps."""
        recorder, stream = self._recorder, self._watching.stream
        if recorder.failure is not None:
            return
        with recorder.guard:
            now = time.perf_counter()
            if self._began is not None:
                # Between two epochs lies more than a step.
                recorder.took(now - self._began if self.batch else None)
            self._began = now
            step, batch = recorder.step, self.batch
            self._details = details = [
                recorder.detail(step + ahead, batch + ahead, self.batches)
                for ahead in range(steps)
            ]
            if details != [0] or not stream.is_quiet:
                stream.arm(details)

    def after(self, logs: Any) -> None:
        """Records what the steps sent."""
        recorder, stream = self._recorder, self._watching.stream
        if recorder.failure is not None:
            return
        with recorder.guard:
            if stream.is_quiet:
                recorder.cost.ran(1, 0)
                recorder.step += 1
            else:
                self._record(*stream.take(), logs)

    def _record(self, ran: int, sent: Mapping[int, Any], logs: Any) -> None:
        recorder, began = self._recorder, time.perf_counter()
        recorder.cost.ran(ran, sum(detail > 0 for detail in self._details))
        loss = logs.get("loss") if isinstance(logs, dict) else None
        for ahead in sorted(sent):
            histograms = self._details[ahead] == HISTOGRAMS
            told = (loss, self.batch + ran)
            recorder.record(recorder.step + ahead, sent[ahead], histograms, told)
        recorder.step += ran
        if sent:
            recorder.wrote(time.perf_counter() - began, len(sent))


class Fit:
    """The taps on one model, in or out.

    Args:
        model: The model.
        wrt: What is watched.
        recorder: Takes what the steps sent.
        hooks: Know whether a callback runs, and what to do when `fit` has failed.
        keep: Called with the batch of each step; None for no such call.

    Attributes:
        is_announced: True if `fit` has said that it will call the train function next.
    """

    def __init__(
        self,
        model: Any,
        wrt: Wrt,
        recorder: StepRecorder,
        hooks: FitHooks,
        keep: Callable[[Any], None] | None,
    ) -> None:
        self.model = model
        self.optimizers = optimizers_of(model)
        self.is_announced = False
        self._recorder = recorder
        self._hooks = hooks
        self._original = model.train_function
        self._slots = int(model.steps_per_execution)
        self._trainable = [id(v) for v in model.trainable_variables]
        self.watching = Watching(model, self.optimizers, wrt, recorder.failed)
        if is_built(model):
            self.watching.resolve()  # a wrong name is an error before training starts
        self.steps = FitSteps(recorder, self.watching)
        inner = self.watching.train_function(self.steps.before, self._after, keep)
        self._function = self._guarded(inner)

    @property
    def iterations(self) -> int:
        """Number of steps that were made; those that accumulate count.

        Of several optimizers the one that made most of them knows best: Keras gives a
        model one of its own, which a `train_step` with others never uses.
        """
        counts = [step_count(optimizer) for optimizer in self.optimizers]
        return max((int(n.value) for n in counts if n is not None), default=0)

    def fits(self, model: Any) -> bool:
        """Returns whether what was compiled is what would be compiled now."""
        return (
            self.model is model
            and model.train_function is self._original
            and [*map(id, optimizers_of(model))] == [*map(id, self.optimizers)]
            and int(model.steps_per_execution) == self._slots
            and (
                current().watching.KEEPS_TRACES
                or [id(v) for v in model.trainable_variables] == self._trainable
            )
        )

    def open(self) -> None:
        """Puts the taps in."""
        self.watching.install()
        self.model.train_function = self._function

    def close(self) -> None:
        """Takes the taps out."""
        self.watching.remove()
        if self.model.train_function is self._function:
            self.model.train_function = self._original

    @contextlib.contextmanager
    def untapped(self) -> Iterator[None]:
        """Takes the taps out for a while."""
        was_open = self.model.train_function is self._function
        self.close()
        try:
            yield
        finally:
            if was_open:
                self.open()

    def info(self) -> dict[str, Any]:
        """Returns what was trained, for readers of the run."""
        return {
            "model": self.model.name,
            "parameters": int(self.model.count_params()) if self.model.built else None,
            "optimizers": [type(o).__name__ for o in self.optimizers],
            "backend": keras.backend.backend(),
            "keras": keras.__version__,
        }

    def _after(self, logs: Any) -> Any:
        self.steps.after(logs)
        if self._recorder.failure is not None:
            self._hooks.fail()
        return logs

    def _guarded(self, inner: Any) -> Any:
        def train_function(*args: Any) -> Any:
            if not self.is_announced:
                # Another callback of this `fit` trains; or the `fit` was interrupted
                # without notice, and something else trains.
                if self._hooks.in_callback:
                    with self.untapped():
                        return self._original(*args)
                self._hooks.fail()
                return self._original(*args)
            self.is_announced = False
            try:
                return inner(*args)
            except current().watching.END_OF_DATA:
                raise
            except BaseException:
                self._hooks.fail()
                raise

        return train_function
