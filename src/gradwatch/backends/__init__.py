"""The only room that knows a framework: one folder for each, chosen by Keras."""

from __future__ import annotations

import functools
import importlib

import keras

from .._errors import GradwatchError
from ._common import fresh_train_function as fresh_train_function
from ._flow import Cut as Cut
from ._flow import Verdict as Verdict
from ._kernels import BaseKernels as BaseKernels
from ._protocol import Backend as Backend
from ._protocol import Leaf as Leaf
from ._protocol import LoopHost as LoopHost
from ._protocol import Outcome as Outcome
from ._protocol import Parts as Parts
from ._protocol import Passed as Passed
from ._protocol import Probe as Probe
from ._protocol import Program as Program
from ._protocol import Recorder as Recorder
from ._protocol import Runner as Runner
from ._protocol import Sparse as Sparse
from ._protocol import Sweep as Sweep
from ._protocol import Tensor as Tensor
from ._streams import LoopStream as LoopStream
from ._streams import Stream as Stream
from ._streams import Tie as Tie

SUPPORTED = ("tensorflow", "jax", "torch")


@functools.cache
def current() -> Backend:
    """Returns the backend that Keras runs on."""
    name = keras.backend.backend()
    if name not in SUPPORTED:
        raise GradwatchError(
            f"gradwatch needs a Keras backend that differentiates, one of {SUPPORTED}. "
            f"Received: {name!r}. Set the environment variable KERAS_BACKEND before "
            "Keras is imported."
        )
    backend: Backend = importlib.import_module(f".{name}", __name__).BACKEND
    return backend
