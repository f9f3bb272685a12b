"""Marks tensors while a forward pass runs."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from .._protocol import Leaf, Tensor


class Recorder:
    """Marks tensors by a fresh identity that the tape watches."""

    def __init__(self, tape: tf.GradientTape, graph: Any = None) -> None:
        self.tape = tape
        self.graph = graph
        self.leaves: dict[Leaf, Tensor] = {}
        self.kept: dict[Leaf, Tensor] = {}
        self._places: list[tuple[int, str]] = [(0, "")]

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """Watching the tensor itself would be wrong where a layer returns its input."""
        marked = tf.identity(tensor)
        self.tape.watch(marked)
        self.leaves[leaf] = marked
        if keep:
            self.kept[leaf] = marked
        return marked

    def can_leave(self, tensor: Tensor) -> bool:
        """The body of a loop, a branch or a map is traced into a graph of its own."""
        del tensor
        return tf.executing_eagerly() or tf_ops.get_default_graph() is self.graph

    def is_dense(self, tensor: object) -> bool:
        """Ragged and sparse tensors are composites."""
        return isinstance(tensor, tf.Tensor)

    @contextlib.contextmanager
    def place(self, address: str) -> Iterator[None]:
        """In a graph, operations are numbered: remember from which number on."""
        if self.graph is None or tf.executing_eagerly():
            yield
            return
        outer = self._places[-1][1]
        self._places.append((self.graph.version, address))
        try:
            yield
        finally:
            self._places.append((self.graph.version, outer))

    def place_of(self, number: int) -> str:
        """Returns the address of the layer that made operation `number`."""
        # An operation is numbered by the version of the graph after it was added.
        position = bisect.bisect_left(self._places, (number, "")) - 1
        return self._places[max(position, 0)][1]
