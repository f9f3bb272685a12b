"""What `gradwatch.Tape` stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import ops as tf_ops

from .._protocol import Tensor
from .passes import as_sparse
from .recorder import Recorder


class Tape:
    """What `gradwatch.Tape` stands on: a persistent `tf.GradientTape`."""

    def __init__(self) -> None:
        self.tape = tf.GradientTape(persistent=True)
        graph = None if tf.executing_eagerly() else tf_ops.get_default_graph()
        self.recorder = Recorder(self.tape, graph)

    def __enter__(self) -> Tape:
        self.tape.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.tape.__exit__(*exception)

    def watch(self, variable: keras.Variable) -> None:
        """Frozen variables are not watched by themselves."""
        self.tape.watch(variable.value)

    def watch_tensor(self, tensor: Tensor) -> None:
        """Watches a plain tensor."""
        self.tape.watch(tensor)

    def native_gradient(
        self, target: Tensor, sources: Sequence[Any], **options: Any
    ) -> list[Any]:
        """Differentiates; sparse gradients come as `tf.IndexedSlices`."""
        native = [s.value if isinstance(s, keras.Variable) else s for s in sources]
        return list(self.tape.gradient(target, native, **options))

    def gradient(self, target: Tensor, sources: Sequence[Any]) -> list[Any]:
        """Differentiates; may be asked again."""
        found = self.native_gradient(target, sources)
        return [as_sparse(g, s) for g, s in zip(found, sources, strict=True)]

    def detached(self, target: Tensor) -> Tensor:
        """Returns the value of the target."""
        return target
