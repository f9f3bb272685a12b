"""A watched training step in torch.

torch runs operations as they are called, in the thread that trains. So everything
happens where it is written: the host arms the stream, `optimizer.apply` measures and
`emit` keeps the numbers, and after the step the host takes them. A custom loop is no
different, but for the host, which is asked by the step itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._common import fresh_train_function
from .._probe import BaseProbe
from .._protocol import Leaf, LoopHost, Parts, Tensor, WatchedStep
from .._streams import LoopStream, Stream
from .kernels import TorchKernels, TorchSweep
from .passes import OpenTensors


class TorchWatchedStep(WatchedStep):
    """Streams numbers out of a training step of torch."""

    def stream(self, model: Any) -> TorchStream:
        """Returns the way out of the steps of `fit`."""
        del model
        return TorchStream(TorchKernels(), TorchSweep.or_none())

    def loop_stream(self, host: LoopHost) -> TorchLoopStream:
        """Returns the way out of a custom loop."""
        return TorchLoopStream(TorchKernels(), TorchSweep.or_none(), host)

    def probe(self) -> TorchProbe:
        """Returns a recorder of activations and their gradients."""
        return TorchProbe()

    def is_tensor(self, value: object) -> bool:
        """Returns whether this is a dense tensor."""
        return isinstance(value, torch.Tensor)

    def rebuild(
        self,
        model: Any,
        stream: TorchStream,
        before: Callable[[int], Any],
        after: Callable[..., Any],
        keep: Callable[[Any], None] | None = None,
    ) -> Any:
        """Returns a new train function that reports each execution."""
        del stream  # is reached from inside the step
        inner = fresh_train_function(model)

        def train_function(data: Any) -> Any:
            before(1)
            if keep is not None:
                keep(data[0])
            return after(inner(data))

        return train_function

    def one_step(self, model: Any, train_function: Any, batch: Any) -> Any:
        """Runs one training step on a batch, and returns its logs."""
        del model
        return train_function([batch])


class TorchStream(Stream):
    """Keeps what a step sends until it is taken."""

    @property
    def skips(self) -> bool:
        """True if this step is not recorded: nothing is traced here."""
        return self.is_quiet

    def vector(self, *numbers: Any) -> Tensor:
        """Returns the numbers as an array: five operations would take longer."""
        return np.array([float(number) for number in numbers])

    def branch(self, due: Any, make: Callable[[], Any]) -> Any:
        """Returns what `make` gives, outside of the graph of autograd."""
        with torch.no_grad():
            return super().branch(due, make)

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, outside of the graph of autograd."""
        with torch.no_grad():
            super().emit(key, due, measure)

    def array(self, tensor: Tensor) -> NDArray[Any]:
        """Returns the value of a tensor."""
        return np.asarray(tensor.cpu().numpy() if torch.is_tensor(tensor) else tensor)


class TorchLoopStream(LoopStream, TorchStream):
    """Carries numbers out of a custom loop."""


class TorchProbe(OpenTensors, BaseProbe):
    """Notes activations and their gradients while a step runs."""

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """Returns a view, a node of its own in the graph, with a hook on it."""
        del keep
        self.note_value(leaf, tensor.detach())
        marked = tensor.view_as(tensor)
        if marked.requires_grad:
            marked.register_hook(lambda dy: self.note_gradient(leaf, dy))
        return marked
