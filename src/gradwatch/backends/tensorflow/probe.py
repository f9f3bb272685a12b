"""Notes activations and their gradients during training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from ..._keras import logits_of
from .._protocol import Leaf, Tensor
from . import kernels


class Probe:
    """Notes activations and their gradients while a step is traced, or runs.

    A gradient is noted by an identity whose derivative notes what passes. XLA rounds
    otherwise where a step has one operation more; there, the tape is asked for the
    gradients of the tensors themselves, together with those of the weights.
    """

    def __init__(self) -> None:
        self._values: dict[Leaf, tuple[Any, Tensor]] = {}
        self._gradients: dict[Leaf, tuple[Any, Tensor]] = {}
        self._asked: dict[Leaf, tuple[Any, Tensor]] = {}
        self._entered: list[int] = []

    def take(self) -> tuple[dict[Leaf, Tensor], dict[Leaf, Tensor], list[Leaf]]:
        """Returns values and gradients that can be used here, and who has none."""
        here = _place()
        values, gradients = (
            {leaf: t for leaf, (place, t) in noted.items() if place is here}
            for noted in (self._values, self._gradients)
        )
        hidden = [leaf for leaf in self._values if leaf not in values]
        self._values, self._gradients, self._asked = {}, {}, {}
        return values, gradients, hidden

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """An identity whose derivative notes what passes."""
        del keep
        self._values[leaf] = (_place(), tensor)
        if _has_logits(tensor):
            return tensor
        if self._is_own(leaf, tensor):
            self._asked[leaf] = (_place(), tensor)
            return tensor

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def probe(x: Tensor) -> Any:
            def backward(dy: Tensor) -> Tensor:
                self._gradients[leaf] = (_place(), tf.convert_to_tensor(dy))
                return dy

            return tf.identity(x), backward

        return probe(tensor)

    def can_leave(self, tensor: Tensor) -> bool:
        """Known when what was noted is taken."""
        del tensor
        return True

    def is_dense(self, tensor: object) -> bool:
        """Ragged and sparse tensors are composites."""
        return isinstance(tensor, tf.Tensor)

    @contextlib.contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Notes what is there before a layer runs."""
        del address
        self._entered.append(_newest())
        try:
            yield
        finally:
            self._entered.pop()

    def _is_own(self, leaf: Leaf, tensor: Tensor) -> bool:
        """Whether all that uses a tensor uses it as the output of this very layer.

        Not if the layer handed on what it was given, or uses it itself; and of several
        outputs two may be the same.
        """
        return (
            bool(self._entered)
            and not leaf.path
            and not tf.executing_eagerly()
            and kernels.in_xla()
            and tensor.graph is _place()
            and tensor.op._id > self._entered[-1]
            and not tensor.consumers()
        )

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Asks whatever tape is asked inside for what is noted, too."""
        original = tf.GradientTape.gradient

        def gradient(
            tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any
        ) -> Any:
            here = _place()
            asked = {
                leaf: t for leaf, (place, t) in self._asked.items() if place is here
            }
            if not asked:
                return original(tape, target, sources, *args, **kwargs)
            both = [sources, list(asked.values())]
            found, gradients = original(tape, target, both, *args, **kwargs)
            for leaf, dy in zip(asked, gradients, strict=True):
                if dy is not None:
                    self._gradients[leaf] = (here, tf.convert_to_tensor(dy))
            return found

        tf.GradientTape.gradient = gradient
        try:
            yield
        finally:
            tf.GradientTape.gradient = original


def _has_logits(tensor: Tensor) -> bool:
    """Whether a loss would look behind the tensor, at what went into the activation.

    The cross-entropies of Keras do, and compute another thing where they cannot. So the
    gradient at such a tensor is never computed in training: only its value is noted.
    """
    if logits_of(tensor) is not None:
        return True
    return not tf.executing_eagerly() and tensor.op.type in ("Sigmoid", "Softmax")


def _newest() -> int:
    """The number of the newest operation of the step that is traced."""
    graph = _place()
    operations = graph.get_operations() if graph is not None else []
    return operations[-1]._id if operations else 0


def _place() -> Any:
    """The body of a loop or a branch is traced into a graph of its own."""
    return None if tf.executing_eagerly() else tf_ops.get_default_graph()
