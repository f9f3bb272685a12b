"""Watching of custom training loops."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from .._errors import GradwatchError
from .._keras import is_built, step_count
from ..backends import Parts
from ..diagnose import Finding
from ..run import Record, Sink
from ..select import require_model
from ._monitor import as_wrt
from ._optimizer import HISTOGRAMS
from ._recorder import StepRecorder
from ._schedule import Budget, Every
from ._watching import Watching


class Watch:
    """A loop that is being watched; the value of `with gradwatch.watch(…)`.

    Example:
    >>> import gradwatch as gw, keras
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> optimizer = keras.optimizers.SGD(0.1)
    >>> with gw.watch(model, optimizer, "runs/loop", every=1) as loop:
    ...     grads = [keras.ops.ones(v.shape) for v in model.trainable_variables]
    ...     optimizer.apply(grads, model.trainable_variables)
    >>> loop.latest.step, loop.latest.layout.names
    (0, ('a/kernel', 'a/bias'))
    """

    def __init__(self, recorder: StepRecorder) -> None:
        self._recorder = recorder
        self._asked: tuple[int, float] | None = None
        self._recorded = 0

    @property
    def latest(self) -> Record | None:
        """The newest record, or None."""
        return self._recorder.latest

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far."""
        return self._recorder.findings

    @property
    def overhead(self) -> dict[str, Any]:
        """The cost of watching so far."""
        return self._recorder.cost.report()

    def _ask(self, step: int, now: bool = True) -> int:
        """Returns how much of a step is recorded.

        Args:
            step: Its number.
            now: Whether the step is about to run; else it is one of many to come.
        """
        recorder = self._recorder
        if recorder.failure is not None:
            return 0
        with recorder.guard:
            if now:
                self._time(step)
            return recorder.detail(step, step, None)
        return 0

    def _time(self, step: int) -> None:
        """Notes how long the steps since the last question took."""
        then, cost = time.perf_counter(), self._recorder.cost
        if self._asked is not None and step > self._asked[0]:
            before, began = self._asked
            cost.ran(step - before, max(0, self._recorded - cost.records))
            self._recorder.took(then - began)
        self._asked = (step, then)

    def _receive(self, step: int, sent: dict[str, Parts], detail: int) -> None:
        """Records what a step sent."""
        recorder = self._recorder
        began = time.perf_counter()
        recorder.step = step
        with recorder.guard:
            if sent and recorder.failure is None:
                recorder.record(step, sent, detail == HISTOGRAMS)
                self._recorded += 1
        recorder.step = step + 1
        if sent:
            recorder.wrote(time.perf_counter() - began, 1)


@contextlib.contextmanager
def watch(  # noqa: PLR0913 - the arguments of `GradientMonitor`, and two before
    model: keras.Model,
    optimizer: Any,
    directory: str | os.PathLike[str],
    *,
    every: Every = 10,
    layers: Any = None,
    activations: Any = None,
    histograms: bool | Every = True,
    sinks: Sequence[Sink] = (),
) -> Iterator[Watch]:
    """Records the gradients of a training loop of your own, as `GradientMonitor` does.

    Whatever calls `optimizer.apply` (or `apply_gradients`; on JAX, `stateless_apply`)
    inside the block is a step: eager, in a `tf.function`, with XLA, in `jax.jit`.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> optimizer = keras.optimizers.SGD(0.1)
    >>> optimizer.build(model.trainable_variables)
    >>> with gw.watch(model, optimizer, "runs/loop", every=2):
    ...     for _ in range(4):
    ...         grads = [keras.ops.ones(v.shape) for v in model.trainable_variables]
    ...         optimizer.apply(grads, model.trainable_variables)
    >>> gw.open_run("runs/loop").steps.tolist()
    [0, 2]

    A function that was compiled before the block does not know of it: compile inside,
    or call it for the first time there. What was compiled inside records nothing more
    after it. In compiled steps on JAX each step asks the host whether it is due.

    Args:
        model: The model whose weights are trained; it gives the names.
        optimizer: The optimizer that is applied, or a list of them. A step is over when
            the last of the list was applied.
        directory: The directory of the run.
        every: As in `GradientMonitor`, without `"epoch"`: a loop has none.
        layers: As in `GradientMonitor`.
        activations: As in `GradientMonitor`.
        histograms: As in `GradientMonitor`.
        sinks: As in `GradientMonitor`.

    Raises:
        GradwatchError: If an argument is not what it must be, or the model not built.
        AddressError: If a name matches nothing.
    """
    require_model(model)
    optimizers = optimizer if isinstance(optimizer, list | tuple) else [optimizer]
    for item in optimizers:
        if not isinstance(item, keras.optimizers.Optimizer):
            raise GradwatchError(
                "`optimizer` must be a Keras optimizer, or a list of them. Received: "
                f"{item!r}. For `fit`, use `gradwatch.GradientMonitor`."
            )
    if "epoch" in (every, histograms):
        raise GradwatchError(
            '`every` must not be "epoch" in a loop of your own, which has none that '
            "gradwatch knows of. Received: 'epoch'. Give the number of steps."
        )
    if not is_built(model):
        raise GradwatchError(
            "`model` must be built, so that its weights have names. Received: "
            f"{model.name!r}, which is not. Call it once on a batch, or `model.build`."
        )
    recorder = StepRecorder(directory, every, histograms, sinks)
    counts = [step_count(optimizer) for optimizer in optimizers]
    recorder.step = max(int(count.value) for count in counts if count is not None)
    loop = Watch(recorder)
    wrt = as_wrt(layers, activations)
    watching = Watching(model, optimizers, wrt, recorder.failed)
    watching.resolve()
    foreseen = not isinstance(every, Budget) and not isinstance(histograms, Budget)
    info = {"model": model.name, "backend": keras.backend.backend()}
    with watching.loop(loop._ask, loop._receive, recorder.step, foreseen) as stream:
        recorder.begin(watching, info)
        well = False
        try:
            yield loop
            well = True
        finally:
            stream.close()
            recorder.cost.steps = stream.ran
            recorder.cost.records = loop._recorded
            recorder.end(well=well)
    _warn_of_silence(watching)


def _warn_of_silence(watching: Watching) -> None:
    if not any(tap.calls for tap in watching.taps):
        warnings.warn(
            "gradwatch saw no step inside `with watch(…)`: the optimizer was not "
            "applied there, or only in a function that had been compiled before the "
            "block. Compile inside it, or pass the optimizer that is used.",
            RuntimeWarning,
            stacklevel=4,
        )
