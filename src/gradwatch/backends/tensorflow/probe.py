"""Notes activations and their gradients during training."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from .._protocol import Leaf, Tensor


class Probe:
    """Notes activations and their gradients while a step is traced, or runs."""

    def __init__(self) -> None:
        self._values: dict[Leaf, tuple[Any, Tensor]] = {}
        self._gradients: dict[Leaf, tuple[Any, Tensor]] = {}

    def take(self) -> tuple[dict[Leaf, Tensor], dict[Leaf, Tensor], list[Leaf]]:
        """Returns values and gradients that can be used here, and who has none."""
        here = _place()
        values, gradients = (
            {leaf: t for leaf, (place, t) in noted.items() if place is here}
            for noted in (self._values, self._gradients)
        )
        hidden = [leaf for leaf in self._values if leaf not in values]
        self._values, self._gradients = {}, {}
        return values, gradients, hidden

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """An identity whose derivative notes what passes."""
        del keep
        self._values[leaf] = (_place(), tensor)
        if _has_logits(tensor):
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

    def place(self, address: str) -> Any:
        """Nobody asks."""
        del address
        return contextlib.nullcontext()


def _has_logits(tensor: Tensor) -> bool:
    """Whether a loss would look behind the tensor, at what went into the activation.

    The cross-entropies of Keras do, and compute another thing where they cannot. So the
    gradient at such a tensor is never computed in training: only its value is noted.
    """
    if hasattr(tensor, "_keras_logits"):
        return True
    return not tf.executing_eagerly() and tensor.op.type in ("Sigmoid", "Softmax")


def _place() -> Any:
    """The body of a loop or a branch is traced into a graph of its own."""
    return None if tf.executing_eagerly() else tf_ops.get_default_graph()
