"""What watching is like where no step is traced that Keras keeps: JAX and torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._protocol import Tensor

KEEPS_TRACES = False
"""Whether a step trains what was trainable when it was traced, whatever is now."""
LISTENS = False
"""Whether an optimizer writes each variable by itself."""


def value(part: Tensor) -> Tensor:
    """Returns a value that `snapshot` kept."""
    return part


def tracing() -> bool:
    """Whether what runs now may be traced again before it counts: never here."""
    return False


def written(train_function: Any, variables: Sequence[Any]) -> list[bool] | None:
    """Keras asks anew at each `fit` what is to be trained: nothing is kept."""
    del train_function, variables
    return None


def as_written(function: Callable[..., Any]) -> Any:
    """Nothing rewrites functions here."""
    return function
