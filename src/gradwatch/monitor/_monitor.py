"""The callback that records the gradients which `fit` really uses."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from .._errors import GradwatchError, renamed
from .._shadow import is_shadowed
from ..diagnose import Finding
from ..run import Record, Sink
from ..select import Activations, Weights, Wrt
from ..select import activations as at
from ..select import weights as of
from ._failsafe import Caught
from ._fit import Fit, FitHooks
from ._nonfinite import NonfiniteExaminer, OnNonfinite
from ._nonfinite import check as check_nonfinite
from ._recorder import OnFinding, StepRecorder
from ._schedule import Every
from ._trainable import changed_since_compile, warn_of_change


class GradientMonitor(keras.callbacks.Callback):
    """Records the gradients of `fit`, as they pass through the optimizer.

    No second pass and no data: the numbers are computed inside the compiled step, on
    the steps that are due; on the others nothing is computed. The model trains as if
    it were not watched, bit for bit. `tensorboard --logdir runs` shows the curves and
    histograms, `gradwatch.open_run` reads everything.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> model.compile("sgd", "mse")
    >>> monitor = gw.GradientMonitor("runs/a", every=2)
    >>> history = model.fit(
    ...     np.ones((8, 3)),
    ...     np.ones((8, 2)),
    ...     batch_size=2,
    ...     verbose=0,
    ...     callbacks=[monitor],
    ... )
    >>> run = gw.open_run("runs/a")
    >>> run.steps.tolist(), run.names
    ([0, 2], ('a/kernel', 'a/bias'))

    What it costs: on a step that is recorded, one sweep over the gradients, and samples
    of the weights before and after; `run.overhead` says how much that was.

    Args:
        directory: The directory of the run. An existing run is continued; where steps
            come again, the new ones count.
        every: A number of steps, `"epoch"` for the last step of each epoch,
            `gradwatch.budget(0.02)` for as often as costs 2 % of the time, or a
            function of the step that gives True or False.
        layers: The weights to record, as `gradwatch.weights` takes them: an address, a
            pattern, a layer, a class, an index (which counts weights), or a list of
            these. Default: every trainable weight.
        activations: Layers whose activations are recorded as well, their values and
            their gradients, in the same terms; True for all.
        histograms: True if recorded steps hold histograms; or the schedule of those
            that do, in the terms of `every`.
        sinks: Further receivers, such as `gradwatch.WandbSink()`.
        on_finding: The reaction to a finding (see `gradwatch.diagnose`), once for
            each: "warn"; "stop", which ends `fit` well, so that `EarlyStopping` can
            restore the best weights; "raise"; or a function of the finding. By default
            it is only recorded.
        on_nonfinite: "autopsy" to find out where the first NaN or infinity comes from
            (see `gradwatch.autopsy`). The step that made it is made once more, with its
            own batch and weights; they are kept in the run, and the finding names the
            layer and the cause. Until then it costs half a per cent of the time, and
            memory for two copies of the weights and up to half a GB of batches.

    Raises:
        GradwatchError: If an argument is none of what it may be.
        UnhealthyError: While training, if `on_finding` is "raise".
        AddressError: When training starts, if a name matches nothing.
    """

    def __init__(  # noqa: PLR0913 - what is watched, and what is done about it
        self,
        directory: str | os.PathLike[str],
        *,
        every: Every = 10,
        layers: Any = None,
        activations: Any = None,
        histograms: bool | Every = True,
        sinks: Sequence[Sink] = (),
        on_finding: OnFinding = None,
        on_nonfinite: OnNonfinite = None,
    ) -> None:
        super().__init__()
        check_nonfinite(on_nonfinite)
        self._wants_autopsy = on_nonfinite == "autopsy"
        self._examiner: NonfiniteExaminer | None = None
        self._recorder = StepRecorder(directory, every, histograms, sinks, on_finding)
        self._hooks = FitHooks(self.close, self._recorder)
        self._wrt = as_wrt(layers, activations)
        self._fit: Fit | None = None
        self._kept: Fit | None = None
        self._is_first_epoch = False
        self._continues = False

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

    # what Keras calls -----------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        """Gets ready; the taps go in when the first epoch begins.

        Not before: an error in the `on_train_begin` of another callback would go
        unnoticed.
        """
        del logs
        kept = self._kept
        self.close()  # what an interrupted `fit` may have left
        if self._recorder.failure is not None:
            return
        with self._guard(GradwatchError):  # a wrong name is an error before training
            model = self.model
            if kept is None or not kept.fits(model):
                if names := changed_since_compile(model):
                    warn_of_change(names)
                    return
                keep = self._keep if self._wants_autopsy else None
                kept = Fit(model, self._wrt, self._recorder, self._hooks, keep)
            self._fit, self._is_first_epoch = kept, True
            self._recorder.is_heard = self._hooks.attach()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Puts the taps in when the first epoch begins."""
        del logs
        if self._fit is not None and self._is_first_epoch:
            self._is_first_epoch = False
            with self._guard(GradwatchError):
                self._open(self._fit, epoch)

    def _open(self, fit: Fit, epoch: int) -> None:
        """Puts the taps in, and finds out at which step the training stands."""
        model, recorder = fit.model, self._recorder
        if is_shadowed(model, "train_step"):
            raise GradwatchError(
                "A model can have one `GradientMonitor` at a time. Received: a second "
                f"one, for {str(recorder.directory)!r}. One monitor records all that "
                "is asked of it; `sinks=` hands its numbers on to others."
            )
        if not self._continues:  # else the count of this monitor goes on
            batches = self.params.get("steps") or 0
            recorder.step = max(fit.iterations, epoch * batches)
        self._continues = True
        holds = self._wants_autopsy
        recorder.begin(fit.watching, fit.info(), holds_nonfinite=holds)
        if self._wants_autopsy:
            self._examiner = NonfiniteExaminer(
                recorder.directory, model, fit.optimizers, fit.untapped
            )
        fit.steps.begin(self.params.get("steps"))
        fit.open()

    # Keras runs the `on_train_batch_end` of callbacks on another thread, unless one of
    # them has such a method. This one has none, so that it changes nothing about that:
    # what a step has shown is acted on when the next one begins.

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Acts on what was found, and announces the next execution."""
        del logs
        # Not `self.model`: on JAX it would fetch the weights at each step.
        fit, recorder = self._fit, self._recorder
        if fit is None:
            return
        if self._examiner is not None:
            with self._guard():
                self._examine(self._examiner.look)
        if recorder.results or recorder.handler.new:
            recorder.act(fit.model)  # may raise: that was asked for
        fit.is_announced, fit.steps.batch = True, batch
        if self._examiner is not None:
            began = time.perf_counter()
            with self._guard():
                self._examiner.before(recorder.step, batch)
            recorder.cost.copying += time.perf_counter() - began

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keeps a training that is to end from going on into another epoch."""
        del epoch, logs
        if self._fit is None:
            return
        if self._examiner is not None:
            with self._guard():
                self._examine(self._examiner.look)
        self._recorder.act_at_epoch_end(self._fit.model)

    def on_train_end(self, logs: Any = None) -> None:
        """Takes the taps out."""
        del logs
        fit = self._fit
        if fit is not None and self._examiner is not None:
            self._recorder.settle()
            with self._guard():
                self._examine(self._examiner.last_look)
        self._close(well=True)
        self._kept = fit  # only what has trained without an error is used again
        if fit is not None:
            self._recorder.act(fit.model)  # what the last steps showed; may raise

    def close(self) -> None:
        """Takes the taps out and ends the file; called when `fit` ends, however."""
        self._close(well=False)

    def _close(self, *, well: bool) -> None:
        fit, self._fit, self._kept = self._fit, None, None
        self._examiner = None
        self._hooks.detach()
        if fit is not None:
            fit.close()
            self._recorder.end(well=well)

    @contextlib.contextmanager
    def _guard(self, passing: Any = ()) -> Iterator[None]:
        """Makes a failure of ours the end of watching, not of the training."""
        with Caught(self._recorder.failed, passing):
            yield
        if self._recorder.failure is not None:
            self.close()

    # an autopsy -----------------------------------------------------------------------

    def _keep(self, batch: Any) -> None:
        if self._examiner is not None:
            self._examiner.keep(batch)

    def _examine(self, look: Callable[[Finding | None, int], Finding | None]) -> None:
        recorder = self._recorder
        held, recorder.held = recorder.held, None
        finding = look(held, max(recorder.step - 1, 0))
        if finding is not None:
            recorder.add_finding(finding)


def as_wrt(layers: Any, activations: Any) -> Wrt:
    """Returns the selectors that the two arguments mean."""
    with renamed(weights="layers"):
        wrt: list[Any] = [layers if isinstance(layers, Weights) else of(layers)]
    if activations is True:
        wrt.append(at())
    elif isinstance(activations, Activations):
        wrt.append(activations)
    elif activations is not None and activations is not False:
        wrt.append(at(activations))
    return wrt
