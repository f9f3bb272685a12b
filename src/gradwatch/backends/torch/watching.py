"""What watching a training needs of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._common import best_of, fresh_train_function
from .._plain import KEEPS_TRACES, LISTENS, as_written, tracing, value, written
from .._protocol import Tensor
from . import kernels
from .loop import LoopStream
from .probe import Probe
from .stream import Stream

__all__ = [
    "KEEPS_TRACES",
    "LISTENS",
    "STATELESS",
    "LoopStream",
    "Probe",
    "Stream",
    "as_written",
    "is_tensor",
    "kernels",
    "one_step",
    "rebuild",
    "seconds",
    "tracing",
    "value",
    "written",
]

STATELESS = False
"""Whether training goes through `stateless_apply`."""


def is_tensor(value: object) -> bool:
    """Whether this is a dense tensor."""
    return isinstance(value, torch.Tensor)


def seconds(function: Callable[..., Any], tensors: Sequence[Tensor]) -> float:
    """Returns how long a function of these tensors takes."""

    def run() -> None:
        with torch.no_grad():
            function([tensor.detach() for tensor in tensors])
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return best_of(run)


def rebuild(
    model: Any,
    stream: Stream,
    before: Callable[[int], Any],
    after: Callable[..., Any],
    keep: Callable[[Any], None] | None = None,
) -> Any:
    """As in TensorFlow."""
    del stream  # is reached from inside the step
    inner = fresh_train_function(model)

    def train_function(data: Any) -> Any:
        before(1)
        if keep is not None:
            keep(data[0])
        return after(inner(data))

    return train_function


def one_step(model: Any, train_function: Any, batch: Any) -> Any:
    """Makes one training step on a batch, and returns its logs."""
    del model
    return train_function([batch])
