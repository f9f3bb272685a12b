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
        self._places: dict[Any, list[tuple[int, str]]] = {}

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
        if tf.executing_eagerly():
            return True
        graph = tf_ops.get_default_graph()
        # `vectorized_map` traces its body into the same graph, under this scope.
        in_map = "loop_body" in graph.get_name_scope().split("/")
        return graph is self.graph and not in_map

    def is_dense(self, tensor: object) -> bool:
        """Ragged and sparse tensors are composites."""
        return isinstance(tensor, tf.Tensor)

    @contextlib.contextmanager
    def place(self, address: str) -> Iterator[None]:
        """In a graph, operations are numbered: remember from which number on."""
        if tf.executing_eagerly():
            yield
            return
        graph = tf_ops.get_default_graph()
        places = self._places.setdefault(graph, [(0, "")])
        outer = places[-1][1]
        places.append((graph.version, address))
        try:
            yield
        finally:
            places.append((graph.version, outer))

    def place_of(self, op: Any) -> str:
        """Returns the address of the layer that made an operation."""
        places = self._places.get(op.graph, [(0, "")])
        # An operation is numbered by the version of the graph after it was added.
        position = bisect.bisect_left(places, (op._id - 1, "")) - 1
        return places[max(position, 0)][1]
