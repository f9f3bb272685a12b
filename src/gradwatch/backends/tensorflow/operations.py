"""Every operation that runs eagerly: the callback that TensorFlow's debugger uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from .._operations import See, canonical

COMPILES_FIRST = False


def traced(function: Callable[[], Any], see: See) -> None:
    """Runs a function, and tells of each operation; seen by this thread only."""

    def callback(kind: Any, inputs: Any, _: Any, outputs: Any, *__: Any) -> None:
        if isinstance(kind, bytes):
            kind = kind.decode()
        see(canonical(kind), _floats(inputs), _floats(outputs))

    op_callbacks.add_op_callback(callback)
    try:
        function()
    finally:
        op_callbacks.remove_op_callback(callback)


def _floats(tensors: Any) -> list[np.ndarray]:
    # Symbolic tensors belong to a function that is traced here and runs elsewhere.
    return [
        tensor.numpy()
        for tensor in tensors or ()
        if isinstance(tensor, tf.Tensor)
        and not tf.is_symbolic_tensor(tensor)
        and tensor.dtype.is_floating
    ]
