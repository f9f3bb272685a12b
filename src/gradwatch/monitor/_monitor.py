"""The callback that records the gradients which `fit` really uses."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras

from .._errors import GradwatchError, told_as
from .._shadow import is_shadowed
from ..diagnose import Finding
from ..run import Record, Sink
from ..select import Activations, Weights, Wrt
from ..select import activations as at
from ..select import weights as of
from ._endings import close_with, running
from ._fit import Fit, Told
from ._host import Host
from ._postmortem import OnNonfinite, Postmortem
from ._postmortem import check as check_nonfinite
from ._schedule import Every
from ._stale import changed, warn_of
from ._verdict import OnFinding


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

    What it costs: on a step that is recorded, about four sweeps over the gradients and
    three over the weights; `run.overhead` says how much that was.

    Args:
        directory: Where the run goes. An existing run is continued; where steps come
            again, the new ones count.
        every: A number of steps, `"epoch"` for the last step of each epoch,
            `gradwatch.budget(0.02)` for as often as costs 2 % of the time, or a
            function of the step that gives True or False.
        layers: Whose weights, as `gradwatch.weights` takes it: an address, a pattern,
            a layer, a class, an index (which counts weights), or a list of these.
            Default: every trainable weight.
        activations: Layers whose activations are recorded as well, their values and
            their gradients, in the same terms; True for all.
        histograms: Whether recorded steps hold histograms; or which of them, in the
            terms of `every`.
        sinks: Further receivers, such as `gradwatch.WandbSink()`.
        on_finding: What is done when something is found to be wrong (see
            `gradwatch.diagnose`), once for each finding: "warn"; "stop", which ends
            `fit` well, so that `EarlyStopping` can restore the best weights; "raise";
            or a function of the finding. By default it is only recorded.
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
        self._postmortem: Postmortem | None = None
        self._host = Host(directory, every, histograms, sinks, on_finding)
        self._wrt = as_wrt(layers, activations)
        self._fit: Fit | None = None
        self._kept: Fit | None = None
        self._began: object = None
        self._runs: Callable[[], bool] | None = None
        self._batch = 0
        self._continues = False

    @property
    def latest(self) -> Record | None:
        """The newest record, or None."""
        return self._host.latest

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found to be wrong so far."""
        return self._host.findings

    @property
    def overhead(self) -> dict[str, Any]:
        """What watching has cost so far."""
        return self._host.cost.report()

    # what Keras calls -----------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        """Gets ready; the taps go in when the first epoch begins.

        Not before: an error in the `on_train_begin` of another callback is one of which
        nobody would tell us.
        """
        del logs
        kept = self._kept
        self.close()  # what an interrupted `fit` may have left
        self._kept = kept
        if self._host.failure is not None:
            return
        try:
            kept = self._of_before(self.model)
            if kept is None and (names := changed(self.model)):
                warn_of(names)
                return
            self._fit = kept or Fit(self.model, self._wrt, self._told())
            self._began, self._first_epoch = object(), True
        except GradwatchError:
            raise  # a name that matches nothing is said before training starts
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            self._host.failed(error)
            self.close()
            return
        frame = sys._getframe(1)
        if isinstance(frame.f_locals.get("self"), keras.callbacks.CallbackList):
            began = self._began
            self._runs = running(frame)
            # Of this `fit` only: the list of an earlier one may be collected later.
            close_with(frame, lambda: self.close() if self._began is began else None)

    def _open(self, fit: Fit, epoch: int) -> None:
        model = self.model
        if is_shadowed(model, "train_step"):
            raise GradwatchError(
                "A model can have one `GradientMonitor` at a time. Received: a second "
                f"one, for {str(self._host.directory)!r}. One monitor records all that "
                "is asked of it; `sinks=` hands its numbers on to others."
            )
        host = self._host
        if not self._continues:  # else the count of this monitor goes on
            batches = self.params.get("steps") or 0
            host.step = max(fit.iterations, epoch * batches)
        self._continues = True
        host.begin(fit.watching, fit.info())
        if self._wants_autopsy:
            self._postmortem = Postmortem(
                host.directory, model, fit.optimizers, fit.untapped
            )
        host.holds = self._wants_autopsy
        fit.open()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Puts the taps in, and finds out at which step training stands."""
        del logs
        if self._fit is None or not self._first_epoch:
            return
        self._first_epoch = False
        try:
            self._open(self._fit, epoch)
        except GradwatchError:
            raise
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            self._host.failed(error)
            self.close()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Notes the place in the epoch."""
        del logs
        self._batch = batch
        if self._fit is not None:
            self._fit.announced = True
        if self._postmortem is not None:
            began = time.perf_counter()
            self._guard(self._postmortem.before, self._host.step, batch)
            self._host.cost.copying += time.perf_counter() - began

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Does what is to be done about what was found."""
        del batch, logs
        if self._fit is None:
            return
        if self._postmortem is not None:
            self._guard(self._examine, self._postmortem.look)
        self._host.act()  # may raise: that was asked for

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Does not let a training that is to end go on into another epoch."""
        del epoch, logs
        if self._fit is not None:
            self._host.act_before_going_on()

    def _examine(self, look: Any) -> None:
        host = self._host
        held = host.held
        found = look(held, max(host.step - 1, 0))
        if held is not None:  # else one may have come in the meantime
            host.held = None
        if found is not None:
            host.tell(found)

    def _guard(self, part: Any, *arguments: Any) -> None:
        try:
            part(*arguments)
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            self._host.failed(error)
            self.close()

    def on_train_end(self, logs: Any = None) -> None:
        """Takes the taps out."""
        del logs
        # Only what has trained without an error is used again.
        kept = self._fit
        if kept is not None and self._postmortem is not None:
            self._host.settle()
            self._guard(self._examine, self._postmortem.last_look)
        self._close(well=True)
        self._kept = kept
        if kept is not None:
            self._host.act()  # what the last steps showed; may raise

    def close(self) -> None:
        """Takes the taps out and ends the file; called when `fit` ends, however."""
        self._close(well=False)

    def _close(self, *, well: bool) -> None:
        fit, self._fit, self._kept, self._began = self._fit, None, None, None
        self._runs = None
        self._postmortem = None
        if fit is not None:
            fit.close()
            self._host.end(well=well)

    # around each execution ------------------------------------------------------------

    def _told(self) -> Told:
        keep = self._keep if self._wants_autopsy else None
        host = self._host
        return Told(
            before=self._before,
            after=self._after,
            keep=keep,
            added=lambda: host.added,
            failed=host.failed,
            dead=self.close,
            alive=self._is_running,
        )

    def _is_running(self) -> bool:
        return self._runs is not None and self._runs()

    def _keep(self, batch: Any) -> None:
        if self._postmortem is not None:
            self._postmortem.keep(batch)

    def _before(self, steps: int) -> None:
        self._host.before(steps, self._batch, self.params.get("steps"))

    def _after(self, logs: Any) -> Any:
        logs = self._host.after(logs)
        if self._host.failure is not None:
            self.close()
        return logs

    def _of_before(self, model: Any) -> Fit | None:
        """What an earlier `fit` compiled, if nothing of it has changed since."""
        if self._kept is None:
            return None
        fit = self._kept
        same = fit.model is model and model.train_function is fit.original
        return fit if same and fit.fits(model) else None


def as_wrt(layers: Any, activations: Any) -> Wrt:
    """Returns the selectors that the two arguments mean."""
    with told_as("layers", "weights"):
        wrt: list[Any] = [layers if isinstance(layers, Weights) else of(layers)]
    if activations is True:
        wrt.append(at())
    elif isinstance(activations, Activations):
        wrt.append(activations)
    elif activations is not None and activations is not False:
        wrt.append(at(activations))
    return wrt
