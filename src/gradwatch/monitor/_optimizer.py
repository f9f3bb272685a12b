"""The tap on a running optimizer: the gradients it gets, and what it makes of them.

All trainers of Keras end in `optimizer.apply`, or on JAX in `stateless_apply`. The
method is shadowed on the instance: what goes in is the gradient, the weights before and
after are the update, and everything between (loss scaling, accumulation, clipping) is
read from the optimizer itself.

One call, in the order of what happens:

1. `_apply` or `_stateless_apply` gets the call and describes it as a `Call`.
2. `_before` reads what the update is about to change: the state of the optimizer, large
   gradients, and the weights (copied, or to be read when the optimizer writes them).
3. The original method runs. `Moves` listens to the variables it writes.
4. `_measure` turns all of it into sums, and the stream sends them.

Where the framework compiles the step (TensorFlow, JAX), all of this is Python that runs
once, when the step is traced: tensors are symbolic, and 2 and 4 only put operations
into the graph. `due` is a tensor then, unless the step was compiled for one detail:
`snapshot`, `read_early` and `emit` of the stream branch on it. On torch, and in eager
steps, it runs at every step, and `due` is a bool.

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
from ..backends import Parts, Stream, Tensor, current
from ..summarise import Reading, changes, measure, read
from ._call import (
    Call,
    accumulators_of,
    applied,
    holding,
    scale_of,
    totals_of,
)
from ._moves import Moves, can_listen

EARLY = 2**16
"""Minimum size of a tensor that is read early; smaller ones stay in the cache."""

SCALARS, HISTOGRAMS = 1, 2
"""Details: how much of a step is recorded. 0 is nothing."""

TOTALS = ("scale", "learning_rate", "advanced", "updates")
"""Numbers that are sent of the step as a whole."""


Lines = tuple[tuple[str, ...], tuple[int, ...]]
"""Names and sizes of the weights of one call, in their order."""


@dataclass(frozen=True)
class Before:
    """What was read of a call before the update.

    Attributes:
        key: The key under which the call sends.
        due: Whether the step is recorded: True, or a tensor.
        indices: Indices of the weights that are watched.
        scale: Factor of the loss, or None.
        totals: Numbers of the step as a whole.
        accumulated: Gradients that were added up before this step, or None.
        readings: Large gradients that were read already, by index.
        moves: The weights before the update: copies, or what is added to them.
    """

    key: str
    due: Any
    indices: list[int]
    scale: Tensor | None
    totals: dict[str, Tensor]
    accumulated: list[Tensor] | None
    readings: dict[int, Callable[[], Reading]]
    moves: Moves


class OptimizerTap:
    """Stands in front of one optimizer while it trains.

    Args:
        optimizer: The optimizer.
        key: Begins the keys under which it sends.
        name_of: Returns the address of a variable; None if it is not watched.
        failed: Gets a failure of ours.
    """

    stream: Stream
    """Carries what is sent; set before the tap is installed."""

    def __init__(
        self,
        optimizer: Any,
        key: str,
        name_of: Callable[[Any], str | None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.done: Callable[[], None] | None = None
        """Called after each call; where steps are compiled, when they are traced."""
        self.optimizer = optimizer
        self.key = key
        self.lines: dict[str, Lines] = {}
        """The weights that each key stands for; known after the first step."""
        self.scale: Tensor | None = None
        """Factor of the loss in the step being traced, or run."""
        self.calls = 0
        """Number of calls; where steps are compiled, of traces."""
        self.rehearses = False
        """True if this step was traced only to make the variables of the optimizer."""
        self._name_of = name_of
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
        if self._inside or not grads:
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
                run=lambda: original(grads, given),
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
                run=lambda: original(optimizer_variables, grads, values),
                after=lambda result: result[0],
                state=lambda: holding(optimizer.variables, optimizer_variables),
                advanced=iterations,
            )
        )

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
            try:
                before = self._before(call)
            except Exception as error:  # noqa: BLE001 - ours must not end a training
                self._failed(error)
                return call.run()
            if before is None:
                result = call.run()
            else:
                with before.moves.listening():
                    result = call.run()
                self._send(call, before, result)
            if self.done is not None:
                self.done()
            return result
        finally:
            self._inside = False

    def _before(self, call: Call) -> Before | None:
        """Reads what the update is about to change; None if nothing is recorded."""
        stream = self.stream
        with call.state():
            stream.begin(step_count(self.optimizer).value)
        due = stream.due(SCALARS)
        if due is False:
            return None
        names = {
            index: name
            for index, variable in enumerate(call.variables)
            if call.grads[index] is not None
            and (name := self._name_of(variable)) is not None
        }
        if not names:
            return None
        indices = list(names)
        sizes = tuple(_size(call.values[index]) for index in indices)
        key = self._key_of(tuple(names.values()), sizes)
        # The scale, the rate and the accumulators, before the update moves them on.
        with call.state():
            scale = self.scale = scale_of(self.optimizer)
            totals = totals_of(self.optimizer, scale)
            accumulated = accumulators_of(self.optimizer, call)
            if accumulated is not None:
                accumulated = stream.snapshot(f"{key}/accumulated", due, accumulated)
        # Before the optimizer gets them: it is given what `read_early` returns.
        readings = self._read_early(call, indices, due)
        moves = Moves(self.optimizer, stream, due, self._failed)
        listened = [index for index in indices if self._can_listen(call, index)]
        moves.listen({index: call.variables[index] for index in listened})
        copied = [index for index in indices if index not in set(listened)]
        values = [call.values[index] for index in copied]
        copies = stream.snapshot(f"{key}/weights", due, values)
        moves.copied(dict(zip(copied, copies, strict=True)))
        return Before(key, due, indices, scale, totals, accumulated, readings, moves)

    def _send(self, call: Call, before: Before, result: Any) -> None:
        """Sends the numbers of a call that has returned this."""
        try:
            after = call.after(result)
            iterations = call.advanced(result)
            measure_ = partial(self._measure, call, before, after, iterations)
            self.stream.emit(before.key, before.due, measure_)
        except Exception as error:  # noqa: BLE001 - ours must not end a training
            self._failed(error)

    def _measure(
        self, call: Call, before: Before, after: Sequence[Tensor], iterations: Tensor
    ) -> Parts:
        """Returns the numbers of a call; runs inside the branch of a step that is due.

        Args:
            call: The call.
            before: What was read before the update.
            after: The weights after it.
            iterations: The optimizer's count after it.
        """
        kernels, indices = self.stream.kernels, before.indices
        weights, updates = changes(
            [before.moves.before(index) for index in indices],
            [after[index] for index in indices],
            kernels,
        )
        gradients = [
            before.readings[index]()
            if index in before.readings
            else call.dense(index, kernels)
            for index in indices
        ]
        counted = self.stream.due(HISTOGRAMS)
        sums, counts = measure(gradients, kernels, before.scale, counted)
        totals = before.totals
        advanced = ops.subtract(iterations, totals["iterations"])
        rate, updated = totals["learning_rate"], totals["updates"]
        parts = {
            "sums": sums,
            "counts": counts,
            "weights": weights,
            "updates": updates,
            "totals": _vector(totals["scale"], rate, advanced, updated),
        }
        with call.state():
            return parts | applied(
                self.optimizer, call, before.scale, before.accumulated, indices, kernels
            )

    def _key_of(self, names: tuple[str, ...], sizes: tuple[int, ...]) -> str:
        """Returns a key for each set of weights: a step may train several in turn.

        Training the same ones twice sends twice under one key: the last counts.
        """
        lines = (names, sizes)
        if lines not in self._keys:
            count = len(self._keys)
            self._keys[lines] = f"{self.key}/{count}" if count else self.key
        key = self._keys[lines]
        self.lines[key] = lines
        return key

    def _read_early(
        self, call: Call, indices: Sequence[int], due: Any
    ) -> dict[int, Callable[[], Reading]]:
        """Reads large gradients before the optimizer does.

        The optimizer finds them in the cache then, and may overwrite them: a gradient
        that is read only after the update would have to be kept.
        """
        readings: dict[int, Callable[[], Reading]] = {}
        for index in indices:
            grad = call.grads[index]
            if not current().watching.is_tensor(grad) or not _is_large(grad):
                continue
            look = partial(read, kernels=self.stream.kernels)
            call.grads[index], made = self.stream.read_early(due, grad, look)
            if made is not None:
                readings[index] = partial(_reading, tuple(grad.shape), made)
        return readings

    def _can_listen(self, call: Call, index: int) -> bool:
        value = call.values[index]
        return (
            self.stream.kernels.can_branch
            and _is_large(value)
            and can_listen(self.optimizer, call.variables[index], value)
        )


def _vector(*numbers: Any) -> Tensor:
    return ops.stack([ops.cast(number, "float32") for number in numbers])


def _reading(shape: tuple[int, ...], made: Callable[[], Any]) -> Reading:
    return Reading(shape, *made())


def _is_large(tensor: Tensor) -> bool:
    return None not in tuple(tensor.shape) and _size(tensor) >= EARLY


def _size(value: Tensor) -> int:
    return math.prod(int(length) for length in value.shape)
