"""TensorFlow: a tape inside one `tf.function`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from .._protocol import Backend, Program, Runner, Tensor
from .graph import traced
from .passes import TFCompiled, TFEager, TFTape, once
from .step import TFWatchedStep


class TensorFlow(Backend):
    """The backend for `KERAS_BACKEND=tensorflow`."""

    watching = TFWatchedStep()
    tape = TFTape
    once = staticmethod(once)
    traced = staticmethod(traced)

    def prepare(
        self,
        program: Program,
        variables: Sequence[Any],
        tensors: Sequence[Tensor],
        *,
        compiled: bool,
    ) -> Runner:
        """Makes a program ready to run on batches like these tensors."""
        if compiled:
            return TFCompiled(program, variables, tensors)
        return TFEager(program, variables)

    def is_eager(self, tensor: Tensor) -> bool:
        """Returns whether the tensor has a value now."""
        return not tf.is_symbolic_tensor(tensor)

    def with_rows(self, tensor: Any, count: int) -> Any:
        """Returns a tensor whose number of rows is known."""
        if not isinstance(tensor, tf.Tensor) or not tensor.shape.rank:
            return tensor
        first, *others = tensor.shape.as_list()
        return tensor if first else tf.ensure_shape(tensor, [count, *others])

    def raw_state(self, layers: Sequence[Any]) -> list[Any]:
        """Returns the raw `tf.Variable`s of layers, which Keras does not protect."""
        return [
            value
            for layer in layers
            for value in vars(layer).values()
            if isinstance(value, tf.Variable)
        ]

    @contextlib.contextmanager
    def restored(self, raw: Sequence[Any]) -> Iterator[None]:
        """Gives raw variables their values back when the `with` ends."""
        before = [variable.read_value() for variable in raw]
        try:
            yield
        finally:
            for variable, value in zip(raw, before, strict=True):
                variable.assign(value)


BACKEND = TensorFlow()
