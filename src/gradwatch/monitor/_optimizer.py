"""The tap on a running optimizer: what it is given, and what it makes of it.

All trainers of Keras end in `optimizer.apply`, or on JAX in `stateless_apply`. The
method is shadowed on the instance: what goes in is the gradient, what the weights were
before and are after is the update, and everything between (loss scaling, accumulation,
clipping) is read from the optimizer itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
from keras import ops

from .._keras import step_count, variables_of
from .._shadow import Shadows
from ..backends import Parts, Tensor, current
from ..summarise import (
    BUCKETS,
    Group,
    Reading,
    changes,
    histograms,
    measure,
    read,
)
from ._call import (
    Step,
    accumulators_of,
    applied,
    holding,
    scale_of,
    totals_of,
)
from ._moves import Moves, can_listen

EARLY = 2**16
"""Smaller tensors fit into the cache anyway: they are read together, at the end."""

SCALARS, HISTOGRAMS = 1, 2
"""How much of a step is recorded."""

TOTALS = ("scale", "learning_rate", "advanced", "updates")
"""What is sent of the step as a whole."""


Lines = tuple[tuple[str, ...], tuple[int, ...]]
"""The names and sizes of the weights of one call, in their order."""


class OptimizerTap:
    """Stands at one optimizer while it trains."""

    def __init__(
        self,
        optimizer: Any,
        key: str,
        stream: Any,
        name_of: Callable[[Any], str | None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.done: Callable[[], None] | None = None
        """Is told of each call that is over; where steps are compiled, when traced."""
        self.optimizer = optimizer
        self.key = key
        self.lines: dict[str, Lines] = {}
        """What it sends, by key; known after the first step."""
        self.scale: Tensor | None = None
        """What the loss was multiplied by in the step being traced, or run."""
        self.calls = 0
        """How often it was reached; where steps are compiled, that is when traced."""
        self.rehearses = False
        """Whether this step was traced only to make the variables of the optimizer."""
        self.stream = stream
        self._name_of = name_of
        self._failed = failed
        self._inside = False
        # The steps of several devices run in threads of their own.
        self._shadows = Shadows(everywhere=True)
        self._keys: dict[Lines, str] = {}

    @property
    def methods(self) -> tuple[str, ...]:
        """What is shadowed."""
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

    # what stands in for the methods ---------------------------------------------------

    def _apply(self, original: Any, grads: Any, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        given = None if trainable_variables is None else list(trainable_variables)
        if self._inside or not grads:
            return original(grads, given)
        self.rehearses = False
        if given is not None and not self.optimizer.built:
            self.rehearses = self._build(given) and current().watching.tracing()
            if self.rehearses:
                return original(grads, given)
        variables = variables_of(self.optimizer) if given is None else given
        return self._tapped(
            Step(
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
            Step(
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
        """As Keras is about to: the state must exist before it is read.

        Returns whether there are variables now that were not there before.
        """
        before = len(self.optimizer.variables)
        with keras.name_scope(self.optimizer.name):
            self.optimizer.build(variables)
        self.optimizer.built = True
        return len(self.optimizer.variables) > before

    # what is done ---------------------------------------------------------------------

    def _tapped(self, step: Step) -> Any:
        self._inside = True
        try:
            self.calls += 1
            try:
                listening, send = self._prepare(step)
            except Exception as error:  # noqa: BLE001 - ours must not end a training
                self._failed(error)
                return step.run()
            with listening:
                result = step.run()
            if send is not None:
                try:
                    send(result)
                except Exception as error:  # noqa: BLE001 - as above
                    self._failed(error)
            if self.done is not None:
                self.done()
            return result
        finally:
            self._inside = False

    def _prepare(self, step: Step) -> tuple[Any, Callable[[Any], None] | None]:
        """Looks at everything as it is before the update.

        Returns what listens to the update, and what sends everything after it.
        """
        stream, backend = self.stream, current().watching
        with step.state():
            stream.begin(step_count(self.optimizer).value)
        due = stream.due(SCALARS)
        if due is False:
            return contextlib.nullcontext(), None
        named = [
            (name, place)
            for place, variable in enumerate(step.variables)
            if step.grads[place] is not None
            and (name := self._name_of(variable)) is not None
        ]
        if not named:
            return contextlib.nullcontext(), None
        key = self._key_of(
            tuple(name for name, _ in named),
            tuple(_size(step.values[place]) for _, place in named),
        )
        places = [place for _, place in named]
        with step.state():
            scale = self.scale = scale_of(self.optimizer)
            totals = totals_of(self.optimizer, scale)
            accumulated = self._accumulated(key, step, due)
        readings = self._read_early(step, places, due)
        listened = [place for place in places if self._can_listen(step, place)]
        variables = {place: step.variables[place] for place in listened}
        moves = Moves(self.optimizer, stream, due, variables, self._failed)
        copied = [place for place in places if place not in set(listened)]
        copies = stream.snapshot(
            f"{key}/weights", due, [step.values[place] for place in copied]
        )

        def send(result: Any) -> None:
            after = step.after(result)
            iterations = step.advanced(result)

            def grads() -> list[Tensor | Reading]:
                return [
                    Reading(*readings[place]())
                    if place in readings
                    else step.dense(place)
                    for place in places
                ]

            def numbers() -> Parts:
                kernels = backend.kernels
                kept = dict(zip(copied, copies, strict=True))
                before = [
                    backend.value(kept[place]) if place in kept else moves.before(place)
                    for place in places
                ]
                weights, updates = changes(
                    before, [after[place] for place in places], kernels
                )
                advanced = ops.subtract(iterations, totals["iterations"])
                group = Group(grads(), kernels, scale)
                parts = {
                    "sums": measure(group),
                    "counts": self._counts(group),
                    "weights": weights,
                    "updates": updates,
                    "totals": _vector(
                        totals["scale"],
                        totals["learning_rate"],
                        advanced,
                        totals["updates"],
                    ),
                }
                with step.state():
                    return parts | applied(
                        self.optimizer, step, scale, accumulated, places
                    )

            stream.emit(key, due, numbers)

        return moves.listening(), send

    def _key_of(self, names: tuple[str, ...], sizes: tuple[int, ...]) -> str:
        """A key for each set of weights: a step may train one after the other.

        What trains the same ones twice sends twice under one key: the last counts.
        """
        lines = (names, sizes)
        if lines not in self._keys:
            count = len(self._keys)
            self._keys[lines] = f"{self.key}/{count}" if count else self.key
        key = self._keys[lines]
        self.lines[key] = lines
        return key

    def _accumulated(self, key: str, step: Step, due: Any) -> Any:
        values = accumulators_of(self.optimizer, step)
        if values is None:
            return None
        return self.stream.snapshot(f"{key}/accumulated", due, values)

    def _counts(self, group: Group) -> Tensor:
        due = self.stream.due(HISTOGRAMS)
        none = partial(ops.zeros, (len(group.tensors), BUCKETS), "float32")
        if isinstance(due, bool):
            return histograms(group) if due else none()
        return ops.cond(due, lambda: histograms(group), none)

    def _read_early(
        self, step: Step, places: Sequence[int], due: Any
    ) -> dict[int, Callable[[], Any]]:
        """Reads large gradients before the optimizer does.

        It finds them in the cache then, and may overwrite them: a gradient that is read
        only after the update would have to be kept.
        """
        watching = current().watching
        readings: dict[int, Callable[[], Any]] = {}
        for place in places:
            grad = step.grads[place]
            if not watching.is_tensor(grad) or not _is_early(grad):
                continue
            look = partial(read, kernels=watching.kernels)
            step.grads[place], made = self.stream.early(due, grad, look)
            if made is not None:
                shape = tuple(grad.shape)
                readings[place] = partial(_whole, shape, made)
        return readings

    def _can_listen(self, step: Step, place: int) -> bool:
        value = step.values[place]
        return _is_early(value) and can_listen(
            self.optimizer, step.variables[place], value
        )


def _vector(*numbers: Any) -> Tensor:
    return ops.stack([ops.cast(number, "float32") for number in numbers])


def _whole(shape: tuple[int, ...], made: Callable[[], Any]) -> tuple[Any, ...]:
    return (shape, *made())


def _is_early(tensor: Tensor) -> bool:
    return None not in tuple(tensor.shape) and _size(tensor) >= EARLY


def _size(value: Tensor) -> int:
    size = 1
    for length in value.shape:
        size *= int(length)
    return size
