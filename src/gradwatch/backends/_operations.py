"""Every operation of a function, one by one: what went in, and what came out.

Below Keras, so that it makes no difference whether a layer calls `keras.ops`, the
framework itself, or a loop.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras
import numpy as np

See = Callable[[str, list[np.ndarray], list[np.ndarray]], None]
"""Is told the name of an operation, its floating-point inputs and its outputs."""


def traced(function: Callable[[], Any], see: See) -> None:
    """Runs a function that returns a list of tensors, and tells of each operation.

    Args:
        function: What to run, eagerly and in this thread.
        see: Is called after each operation, in the order of execution.
    """
    _module().traced(function, see)


def compiles_first() -> bool:
    """Whether a single pass is faster compiled than operation by operation."""
    return bool(_module().COMPILES_FIRST)


def _module() -> ModuleType:
    name = keras.config.backend()
    return importlib.import_module(f".{name}.operations", __package__)


def canonical(name: str) -> str:
    """Returns the one name of an operation that each framework calls differently.

    Example:
    >>> canonical("RealDiv"), canonical("div_"), canonical("true_divide")
    ('divide', 'divide', 'divide')
    """
    name = name.strip("_").lower()
    return _NAMES.get(name, name)


_NAMES = {
    **dict.fromkeys(("realdiv", "div", "truediv", "true_divide"), "divide"),
    **dict.fromkeys(("divnonan", "div_no_nan"), "divide_no_nan"),
    **dict.fromkeys(("inv", "reciprocal"), "reciprocal"),
    **dict.fromkeys(("pow", "integer_pow"), "power"),
    **dict.fromkeys(
        ("batchmatmulv2", "batchmatmulv3", "mm", "bmm", "addmm", "dot_general"),
        "matmul",
    ),
    **dict.fromkeys(("convert_element_type", "to_copy"), "cast"),
    **dict.fromkeys(("acos", "arccos"), "arccos"),
    **dict.fromkeys(("asin", "arcsin"), "arcsin"),
    **dict.fromkeys(("atanh", "arctanh"), "arctanh"),
    **dict.fromkeys(("mul", "multiply"), "multiply"),
    **dict.fromkeys(("add", "addv2", "add_any", "biasadd"), "add"),
    **dict.fromkeys(("sub", "subtract"), "subtract"),
    **dict.fromkeys(("sum", "reduce_sum"), "sum"),
    **dict.fromkeys(("linalg_vector_norm", "norm"), "norm"),
    "logsoftmax": "log_softmax",
}
