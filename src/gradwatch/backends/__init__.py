"""The only room that knows a framework: one file for each, chosen by Keras."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

import keras

from .._errors import GradwatchError
from ._common import fresh_train_function as fresh_train_function
from ._flow import Cut as Cut
from ._flow import Verdict as Verdict
from ._operations import compiles_first as compiles_first
from ._operations import traced as traced
from ._protocol import Leaf as Leaf
from ._protocol import Outcome as Outcome
from ._protocol import Parts as Parts
from ._protocol import Passed as Passed
from ._protocol import Program as Program
from ._protocol import Recorder as Recorder
from ._protocol import Runner as Runner
from ._protocol import Sparse as Sparse
from ._protocol import Tensor as Tensor

SUPPORTED = ("tensorflow", "jax", "torch")


@functools.cache
def current() -> ModuleType:
    """Returns the module of the backend that Keras runs on."""
    name = keras.backend.backend()
    if name not in SUPPORTED:
        raise GradwatchError(
            f"gradwatch needs a Keras backend that differentiates, one of {SUPPORTED}. "
            f"Received: {name!r}. Set the environment variable KERAS_BACKEND before "
            "Keras is imported."
        )
    return importlib.import_module(f".{name}", __name__)
