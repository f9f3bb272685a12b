"""All taps on a model while it trains: optimizers, layers, the train function.

For `fit`: `train_function` builds a step that goes through the taps; `install` puts
them on the instances; then each step (or, where it is compiled, its trace) runs
`_step` → `layers` → Keras's own `train_step` → the `OptimizerTap`s → `_send`. For a
custom loop: `loop` does all of it for the length of a `with`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
from keras import ops

from .._errors import renamed
from .._keras import is_built
from .._shadow import Shadows
from ..backends import LoopHost, LoopStream, Parts, Probe, Stream, current
from ..engine import Session
from ..select import (
    NOTHING,
    Activations,
    Inputs,
    Selection,
    Tree,
    Weights,
    Wrt,
    resolve,
    selectors,
    walk,
)
from ._failsafe import Caught
from ._optimizer import SCALARS, OptimizerTap, sweep_of

_ARGUMENTS = {Weights: "layers", Activations: "activations", Inputs: "activations"}

ACTIVATIONS = "activations"
"""The key under which activations are sent."""


@dataclass(frozen=True)
class Labels:
    """Names for the numbers of one step. A later step, traced anew, may have others.

    Attributes:
        weights: The names and sizes of what each tap sends, by key.
        activations: The activations whose values were sent.
        reached: Those whose gradients were.
        order: The watched weights in the order of the model's depth.
    """

    weights: dict[str, tuple[tuple[str, ...], tuple[int, ...]]]
    activations: tuple[str, ...]
    reached: tuple[str, ...]
    order: Collection[str]


class Watching:
    """Taps one model and its optimizers; what they send is in `stream`.

    Args:
        model: The model.
        optimizers: Those that train it.
        wrt: Selects what is watched. Resolved when the model is built, at the latest
            at the first step.
        failed: Gets a failure of ours, which must not become the user's.
    """

    stream: Stream
    """Carries what the steps send; made with the train function, or for the loop."""

    def __init__(
        self,
        model: Any,
        optimizers: Sequence[Any],
        wrt: Wrt,
        failed: Callable[[Exception], None],
    ) -> None:
        self.model = model
        self.activations: tuple[str, ...] = ()
        """The activations whose values are sent, in their order."""
        self.reached: tuple[str, ...] = ()
        """The activations whose gradients are sent, too."""
        self.hidden: set[str] = set()
        """Layers whose tensors live inside a loop or a branch."""
        self._wrt = wrt
        chosen = selectors(wrt) if wrt else []
        self._has_taps = any(not isinstance(one, Weights) for one in chosen)
        self._failed = failed
        # The steps of several devices run in threads of their own.
        self._shadows = Shadows(everywhere=True)
        self._resolved: tuple[Tree, Selection, dict[int, str]] | None = None
        self._labels: Labels | None = None
        self.taps = [
            OptimizerTap(optimizer, f"optimizer{i}", self._names, failed)
            for i, optimizer in enumerate(optimizers)
        ]

    # names ----------------------------------------------------------------------------

    def resolve(self) -> tuple[Tree, Selection, dict[int, str]]:
        """Returns what is watched, by name; needs a model that is built.

        Raises:
            AddressError: When a pattern matches nothing.
        """
        if self._resolved is None:
            tree = walk(self.model)
            # First each for itself, so that an error names the argument it is of.
            for selector in selectors(self._wrt) if self._wrt else ():
                with renamed(wrt=_ARGUMENTS[type(selector)]):
                    resolve(selector, tree)
            selection = resolve(self._wrt, tree) if self._wrt else NOTHING
            names = {id(w.variable): name for name, w in selection.weights.items()}
            self._resolved = tree, selection, names
        return self._resolved

    def _names(self) -> dict[int, str]:
        return self.resolve()[2]

    @property
    def labels(self) -> Labels:
        """The names for what the newest step sent; one object until they change."""
        for tap in self.taps:
            if tap.is_relabelled:
                tap.is_relabelled, self._labels = False, None
        if self._labels is None:
            self._labels = Labels(
                {key: lines for tap in self.taps for key, lines in tap.lines.items()},
                self.activations,
                self.reached,
                self.resolve()[1].weights,
            )
        return self._labels

    # the train function ---------------------------------------------------------------

    def train_function(
        self,
        before: Callable[[int], Any],
        after: Callable[..., Any],
        keep: Callable[[Any], None] | None = None,
    ) -> Any:
        """Returns a train function of the model whose steps go through the taps.

        Args:
            before: Gets the number of steps that are about to run.
            after: Gets the logs, and returns them.
            keep: Gets the batch of each step.
        """
        watching = current().watching
        self._connect(watching.stream(self.model))
        return watching.rebuild(self.model, self.stream, before, after, keep)

    def _connect(self, stream: Stream) -> None:
        self.stream = stream
        for tap in self.taps:
            tap.stream = stream

    def install(self) -> None:
        """Shadows what has to be, on the instances."""
        for tap in self.taps:
            tap.install()
        self._shadows.put(self.model, "train_step", self._step)

    def remove(self) -> None:
        """Takes all shadows away."""
        for tap in self.taps:
            tap.remove()
        self._shadows.close()

    def _step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        if self.stream.skips:
            return train_step(*args)
        if self._has_taps:
            train_step = partial(self._tapped_step, train_step)
        return self.stream.step(train_step, *args)

    def _tapped_step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        with self.layers() as send:
            result = train_step(*args)
            if not any(tap.rehearses for tap in self.taps):
                send()
        return result

    @contextlib.contextmanager
    def loop(
        self,
        ask: Callable[[int], int],
        receive: Callable[..., None],
        start: int,
        foreseen: bool,
    ) -> Iterator[LoopStream]:
        """Taps a custom loop, whose steps are not announced; yields its stream."""
        host = LoopHost(ask, receive, start, foreseen)
        stream = current().watching.loop_stream(host)
        self._connect(stream)
        probe = current().watching.probe()
        session = self._new_session(probe)

        def done() -> None:
            if session is not None:
                if not any(tap.rehearses for tap in self.taps):
                    self._send(session, probe, stream.due(SCALARS))
                session.forget()
            stream.applied()

        self.taps[-1].done = done
        try:
            with contextlib.ExitStack() as stack:
                for tap in self.taps:
                    tap.install()
                    stack.callback(tap.remove)
                if session is not None:
                    stack.enter_context(session.open(alone=False))
                yield stream
        finally:
            self.taps[-1].done = None

    # layers ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def layers(self) -> Iterator[Callable[[], None]]:
        """Taps the layers; what is yielded sends what was seen."""
        probe = current().watching.probe()
        session = None
        with Caught(self._failed):
            due = self.stream.due(SCALARS)
            session = None if due is False else self._new_session(probe)
        if session is None:
            yield lambda: None
            return
        with session.open(alone=False):
            yield lambda: self._send(session, probe, due)

    def _new_session(self, probe: Probe) -> Session | None:
        # A model that is not built has no addresses yet: its first step goes untapped.
        if not is_built(self.model):
            return None
        tree, selection, _ = self.resolve()
        if not selection.taps:
            return None
        return Session(tree, selection, probe)

    def _send(self, session: Session, probe: Probe, due: Any) -> None:
        """Sends the activations that a session has tapped, and their gradients."""
        with Caught(self._failed):
            values, gradients, hidden = probe.take()
            reached = [leaf for leaf in values if leaf in gradients]
            calls = session.facts.calls
            names = tuple(leaf.name(calls) for leaf in values)
            names_reached = tuple(leaf.name(calls) for leaf in reached)
            if (names, names_reached) != (self.activations, self.reached):
                self.activations, self.reached = names, names_reached
                self._labels = None
            self.hidden |= {leaf.address for leaf in hidden}
            if not values:
                return
            sweep = sweep_of(self.stream)
            wanted = self.stream.wanted
            is_number = isinstance(wanted, int)  # no histograms of activations
            detail = (min if is_number else ops.minimum)(wanted, SCALARS)

            def numbers() -> Parts:
                parts = {"values": sweep.measure([*values.values()], detail)[0]["rows"]}
                if reached:
                    chosen = [gradients[leaf] for leaf in reached]
                    scale = self.taps[0].scale if self.taps else None
                    rows = sweep.measure(chosen, detail, scale)[0]["rows"]
                    parts["gradients"] = rows
                return parts

            self.stream.emit(ACTIVATIONS, due, numbers)


def optimizers_of(model: Any) -> list[Any]:
    """Returns the optimizers a model holds: its own, and those of a custom step."""
    optimizers: dict[int, Any] = {}
    values = [getattr(model, "optimizer", None), *vars(model).values()]
    for value in values:
        items = value.values() if isinstance(value, dict) else value
        several = isinstance(value, dict | list | tuple)
        for item in items if several else [value]:
            if isinstance(item, keras.optimizers.Optimizer):
                optimizers.setdefault(id(item), item)
    return list(optimizers.values())
