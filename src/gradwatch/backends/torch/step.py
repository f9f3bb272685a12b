"""A watched training step in torch.

torch runs operations as they are called, in the thread that trains. So everything
happens where it is written: the host arms the stream, `optimizer.apply` measures and
`emit` keeps the numbers, and after the step the host takes them. A custom loop is no
different, but for the host, which is asked by the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from .._common import best_of, fresh_train_function
from .._probe import BaseProbe
from .._protocol import Leaf, Parts, Tensor, WatchedStep
from .._streams import LoopStream, Stream
from .kernels import TorchKernels


class TorchWatchedStep(WatchedStep):
    """Streams numbers out of a training step of torch."""

    kernels = TorchKernels()

    def stream(self, model: Any) -> TorchStream:
        """Returns the way out of the steps of `fit`."""
        del model
        return TorchStream(self.kernels)

    def loop_stream(
        self,
        ask: Callable[[int], int],
        receive: Callable[[int, dict[str, Parts], int], None],
        start: int,
        foreseen: bool,
    ) -> TorchLoopStream:
        """Returns the way out of a custom loop."""
        del foreseen  # each step asks for itself
        return TorchLoopStream(self.kernels, ask, receive, start)

    def probe(self) -> TorchProbe:
        """Returns a recorder of activations and their gradients."""
        return TorchProbe()

    def is_tensor(self, value: object) -> bool:
        """Returns whether this is a dense tensor."""
        return isinstance(value, torch.Tensor)

    def seconds(self, function: Callable[..., Any], tensors: Sequence[Tensor]) -> float:
        """Returns the seconds that a function of these tensors takes."""

        def run() -> None:
            with torch.no_grad():
                function([tensor.detach() for tensor in tensors])
            _synchronise()

        return best_of(run)

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

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._buffers: dict[str, list[Tensor]] = {}

    def snapshot(self, key: str, due: Any, values: Sequence[Tensor]) -> list[Tensor]:
        """Copies into memory that is reused: fresh memory costs five times more."""
        del due  # only steps that are due ask
        values = [value.detach() for value in values]
        buffers = self._buffers.get(key, [])
        if [(b.shape, b.dtype, b.device) for b in buffers] != [
            (v.shape, v.dtype, v.device) for v in values
        ]:
            buffers = self._buffers[key] = [torch.empty_like(v) for v in values]
        torch._foreach_copy_(buffers, values)
        return buffers

    def emit(self, key: str, due: Any, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, outside of the graph of autograd."""
        with torch.no_grad():
            super().emit(key, due, measure)

    def array(self, tensor: Tensor) -> NDArray[Any]:
        """Returns the value of a tensor."""
        array: NDArray[Any] = tensor.cpu().numpy()
        return array

    def wait(self, logs: Any) -> None:
        """Returns when the steps so far are done."""
        del logs
        _synchronise()


class TorchLoopStream(LoopStream, TorchStream):
    """Carries numbers out of a custom loop."""


class TorchProbe(BaseProbe):
    """Notes activations and their gradients while a step runs."""

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """Returns a view, a node of its own in the graph, with a hook on it."""
        del keep
        self.note_value(leaf, tensor.detach())
        marked = tensor.view_as(tensor)
        if marked.requires_grad:
            marked.register_hook(lambda dy: self.note_gradient(leaf, dy))
        return marked

    def can_leave(self, tensor: Tensor) -> bool:
        """Returns whether it is not wrapped by `vmap`, with which it would end."""
        return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)

    def is_dense(self, tensor: object) -> bool:
        """Returns whether it is dense; sparse layouts are left alone."""
        return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided


def _synchronise() -> None:
    """Waits for the accelerator."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
