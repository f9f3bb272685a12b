"""The tap on a running optimizer: the gradients it gets, and what it makes of them.

All trainers of Keras end in `optimizer.apply`, or on JAX in `stateless_apply`. The
method is shadowed on the instance: what goes in is the gradient, the weights before and
after are the update, and everything between (loss scaling, accumulation, clipping) is
read from the optimizer itself.

One call, in the order of what happens:

1. `_apply` or `_stateless_apply` gets the call and describes it as a `Call`.
2. `_before` measures the gradients, and samples the weights that are about to change.
3. The original method runs.
4. `_send` measures how far the weights moved, and the stream sends everything.

Where the framework compiles the step (TensorFlow, JAX), all of this is Python that runs
once, when the step is traced: tensors are symbolic, and 2 and 4 only put operations
into the graph. `due` is a tensor then, unless the step was compiled for one detail, and
the stream branches on it. The native sweep in a step that XLA compiles is not in a
branch: it gets the detail as an argument. On torch, and in eager steps, all of it runs
at every step, and `due` is a bool.

A failure of ours must not end a training: it is reported once, and the call goes on as
if it were not tapped.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
from keras import ops

from .._keras import step_count, variables_of
from .._shadow import Shadows
from ..backends import Parts, Stream, Sweep, Tensor, Tie, current
from ..summarise import Lean
from ._call import Call, applied, holding, scale_of, totals_of
from ._failsafe import Caught

SCALARS, HISTOGRAMS = 1, 2
"""Details: how much of a step is recorded. 0 is nothing."""

TOTALS = ("scale", "learning_rate", "advanced", "updates")
"""Numbers that are sent of the step as a whole."""


Lines = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and sizes of the weights of one call, in their order."""


@dataclass(frozen=True)
class Before:
    """Everything that was measured of a call before the update.

    Attributes:
        key: The key under which the call sends.
        due: Whether the step is recorded: True, or a tensor.
        detail: How much of it is recorded.
        indices: Indices of the weights that are watched.
        totals: Numbers of the step as a whole.
        parts: What is sent of the gradients.
        sample: Blocks of the weights.
    """

    key: str
    due: Any
    detail: Any
    indices: list[int]
    totals: dict[str, Tensor]
    parts: Parts
    sample: Any


class OptimizerTap:
    """Stands in front of one optimizer while it trains.

    Args:
        optimizer: The optimizer.
        key: Begins the keys under which it sends.
        names: Returns the addresses of the variables that are watched, by `id`.
        failed: Gets a failure of ours.
    """

    stream: Stream
    """Carries what is sent; set before the tap is installed."""

    def __init__(
        self,
        optimizer: Any,
        key: str,
        names: Callable[[], dict[int, str]],
        failed: Callable[[Exception], None],
    ) -> None:
        self.done: Callable[[], None] | None = None
        """Called after each call; where steps are compiled, when they are traced."""
        self.optimizer = optimizer
        self.key = key
        self.lines: dict[str, Lines] = {}
        """The weights that each key stands for; known after the first step."""
        self.is_relabelled = False
        """True if `lines` has changed since this was last set to False."""
        self.scale: Tensor | None = None
        """Factor of the loss in the step being traced, or run."""
        self.calls = 0
        """Number of calls; where steps are compiled, of traces."""
        self.rehearses = False
        """True if this step was traced only to make the variables of the optimizer."""
        self._names = names
        self._failed = failed
        self._inside = False
        # The steps of several devices run in threads of their own.
        self._shadows = Shadows(everywhere=True)
        self._keys: dict[Lines, str] = {}

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that are shadowed."""
        stateless = current().watching.STATELESS
        return ("apply", "stateless_apply") if stateless else ("apply",)

    def install(self) -> None:
        """Shadows the methods on the instance."""
        for method in self.methods:
            around = current().watching.as_written(getattr(self, f"_{method}"))
            self._shadows.put(self.optimizer, method, around)

    def remove(self) -> None:
        """Takes the shadows away."""
        self._shadows.close()

    # in front of the methods ----------------------------------------------------------

    def _apply(self, original: Any, grads: Any, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        given = None if trainable_variables is None else list(trainable_variables)
        if self._inside or not grads or self.stream.skips:
            return original(grads, given)
        self.rehearses = False
        if given is not None and not self.optimizer.built:
            # TensorFlow traces a function that makes variables twice, and only the
            # second trace runs: the first one goes untapped.
            self.rehearses = self._build(given) and current().watching.tracing()
            if self.rehearses:
                return original(grads, given)
        variables = variables_of(self.optimizer) if given is None else given
        return self._tapped(
            Call(
                grads,
                variables,
                [getattr(v, "value", v) for v in variables],
                run=partial(self._update, partial(original, grads, given)),
                after=lambda _: [getattr(v, "value", v) for v in variables],
                state=contextlib.nullcontext,
                advanced=lambda _: step_count(self.optimizer).value,
            )
        )

    def _stateless_apply(
        self,
        original: Any,
        optimizer_variables: Any,
        grads: Any,
        trainable_variables: Any,
    ) -> Any:
        grads, values = list(grads), list(trainable_variables)
        optimizer = self.optimizer
        fits = len(values) == len(variables_of(optimizer))  # else Keras says so
        if self._inside or not fits:
            return original(optimizer_variables, grads, values)

        def iterations(result: Any) -> Tensor:
            with holding(optimizer.variables, result[1]):
                return step_count(self.optimizer).value

        return self._tapped(
            Call(
                grads,
                variables_of(optimizer),
                values,
                run=lambda tie: original(
                    [_tied(value, tie) for value in optimizer_variables], grads, values
                ),
                after=lambda result: result[0],
                state=lambda: holding(optimizer.variables, optimizer_variables),
                advanced=iterations,
            )
        )

    def _update(self, original: Callable[[], Any], tie: Tie | None) -> Any:
        """Makes the update, which depends on scalars: the rate and the step."""
        if tie is not None:
            for variable in self.optimizer.variables:
                if not len(variable.shape):  # an empty `TensorShape` is true
                    variable.assign(tie(variable.value))
        return original()

    def _build(self, variables: list[Any]) -> bool:
        """Builds the optimizer as Keras is about to: its state is read before.

        Returns whether this made variables.
        """
        before = len(self.optimizer.variables)
        with keras.name_scope(self.optimizer.name):
            self.optimizer.build(variables)
        self.optimizer.built = True
        return len(self.optimizer.variables) > before

    # one call -------------------------------------------------------------------------

    def _tapped(self, call: Call) -> Any:
        self._inside = True  # an optimizer may call its own `apply`
        try:
            self.calls += 1
            before = None
            with Caught(self._failed):
                before = self._before(call)
            if before is None:
                result = call.run(None)
            else:
                with self.stream.ordered(before.sample) as tie:
                    result = call.run(tie)
                with Caught(self._failed):
                    self._send(call, before, result)
            if self.done is not None:
                self.done()
            return result
        finally:
            self._inside = False

    def _before(self, call: Call) -> Before | None:
        """Measures what goes into the update; None if nothing is recorded."""
        stream = self.stream
        with call.state():
            stream.begin(step_count(self.optimizer).value)
        due = stream.due(SCALARS)
        if due is False:
            return None
        names = self._names()
        indices = [
            index
            for index, variable in enumerate(call.variables)
            if call.grads[index] is not None and id(variable) in names
        ]
        if not indices:
            return None
        addresses = [names[id(call.variables[index])] for index in indices]
        sizes = [math.prod(tuple(call.values[index].shape)) for index in indices]
        key = self._key_of(tuple(addresses), tuple(sizes))
        # The scale and the rate, before the update moves them on.
        with call.state():
            scale = self.scale = scale_of(self.optimizer)
            totals = totals_of(self.optimizer, scale)
            parts, sample = self._measure(call, indices, due)
        detail = stream.wanted
        return Before(key, due, detail, indices, totals, parts, sample)

    def _measure(
        self, call: Call, indices: Sequence[int], due: Any
    ) -> tuple[Parts, Any]:
        """Returns the numbers of the gradients, and a sample of the weights."""
        stream, scale = self.stream, self.scale
        sweep, kernels, detail = sweep_of(stream), stream.kernels, stream.wanted
        norms = applied(self.optimizer, call, scale, indices, kernels)

        def measured() -> Parts:
            grads = [call.readable(index, kernels) for index in indices]
            parts, passed = sweep.measure(grads, detail, scale)
            if sweep.gated:
                call.go_on_with(passed, grads, indices)
            elif norms is not None:
                parts |= norms(sweep, detail)
            return parts

        def sampled() -> Any:
            return sweep.sample([call.values[index] for index in indices], detail)

        if not sweep.gated:
            # The sample in a branch of its own: it waits for no gradient, and what it
            # has read need not be copied when the update writes to it.
            sample = stream.branch(due, sampled)
            return stream.branch(due, measured), sample
        parts = measured()
        if norms is not None:
            # Clipping and accumulation are computed again: only in due steps.
            parts |= stream.branch(due, partial(norms, sweep, detail))
        return parts, sampled()

    def _send(self, call: Call, before: Before, result: Any) -> None:
        """Sends the numbers of a call that has returned this."""
        after = call.after(result)
        totals = before.totals
        advanced = ops.subtract(call.advanced(result), totals["iterations"])
        sweep = sweep_of(self.stream)

        def parts() -> Parts:
            values = [after[index] for index in before.indices]
            rate, updated = totals["learning_rate"], totals["updates"]
            return before.parts | {
                "moves": sweep.moves(before.sample, values, before.detail),
                "totals": self.stream.vector(totals["scale"], rate, advanced, updated),
            }

        self.stream.emit(before.key, before.due, parts)

    def _key_of(self, names: tuple[str, ...], sizes: tuple[int, ...]) -> str:
        """Returns a key for each set of weights: a step may train several in turn.

        Training the same ones twice sends twice under one key: the last counts.
        """
        lines = (names, sizes)
        if lines not in self._keys:
            count = len(self._keys)
            self._keys[lines] = f"{self.key}/{count}" if count else self.key
        key = self._keys[lines]
        if self.lines.get(key) != lines:
            self.lines[key] = lines
            self.is_relabelled = True
        return key


def sweep_of(stream: Stream) -> Sweep:
    """Returns how tensors are measured in the step that runs, or is traced."""
    return stream.native or Lean(stream.kernels)


def _tied(value: Tensor, tie: Tie | None) -> Tensor:
    return value if tie is None or len(value.shape) else tie(value)
