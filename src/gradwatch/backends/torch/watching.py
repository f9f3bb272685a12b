"""The way from inside a running training step to the host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._common import best_of
from .._protocol import Leaf, Parts, Taken, Tensor
from . import kernels  # noqa: F401 - `watching.kernels` is read by others
from .recorder import Recorder

STATELESS = False
"""Whether training goes through `stateless_apply`."""
KEEPS_TRACES = False
"""Whether a step trains what was trainable when it was traced, whatever is now."""
LISTENS = False
"""Whether an optimizer writes each variable by itself."""


class Stream:
    """torch runs step by step: what a step sends is kept until it is taken."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._armed: list[int] = []
        self._sent: list[dict[str, Parts]] = [{}]
        self._buffers: dict[str, list[Tensor]] = {}

    # inside the step ------------------------------------------------------------------

    def begin(self, iterations: Tensor) -> None:
        """An optimizer is about to make this step."""
        del iterations  # a stream of `fit` is told by the host

    def due(self, detail: int) -> bool:
        """Whether this much of the step is recorded."""
        place = len(self._sent) - 1
        return place < len(self._armed) and self._armed[place] >= detail

    def snapshot(self, key: str, due: bool, values: Sequence[Tensor]) -> Any:
        """Copies into memory that is used again: fresh memory costs five times more."""
        if not due:
            return None
        values = [value.detach() for value in values]
        buffers = self._buffers.get(key, [])
        if [(b.shape, b.dtype, b.device) for b in buffers] != [
            (v.shape, v.dtype, v.device) for v in values
        ]:
            buffers = self._buffers[key] = [torch.empty_like(v) for v in values]
        torch._foreach_copy_(buffers, values)
        return buffers

    def early(
        self, due: bool, tensor: Tensor, read: Callable[[Tensor], Any]
    ) -> tuple[Tensor, None]:
        """Nothing is gained here by reading a tensor before others do."""
        del due, read
        return tensor, None

    def emit(self, key: str, due: bool, measure: Callable[[], Parts]) -> None:
        """Sends what `measure` gives, if the step is due; else it is not called."""
        if due:
            with torch.no_grad():
                self._sent[-1][key] = measure()

    def step(self, train_step: Callable[..., Any], *args: Any) -> Any:
        """Runs one training step."""
        result = train_step(*args)
        self._sent.append({})
        return result

    # on the host ----------------------------------------------------------------------

    def arm(self, details: Sequence[int]) -> None:
        """Says how much of each of the next steps is recorded; 0 is nothing."""
        self._armed = list(details)
        self._sent = [{}]

    def take(self) -> Taken:
        """Returns what the steps since `arm` sent, and how many there were."""
        sent = {
            place: {
                key: {name: part.cpu().numpy() for name, part in parts.items()}
                for key, parts in by_key.items()
            }
            for place, by_key in enumerate(self._sent[:-1])
            if by_key
        }
        return len(self._sent) - 1, sent

    def wait(self, logs: Any) -> None:
        """Returns when the steps that gave these logs are done."""
        del logs
        if torch.cuda.is_available():
            torch.cuda.synchronize()


class LoopStream(Stream):
    """For a loop of the user's own: the step ends when the last optimizer is done.

    Args:
        ask: Gives the detail of a step, by its number.
        receive: Gets what a step sent, its number and its detail.
        start: The number of the first step.
    """

    def __init__(
        self,
        ask: Callable[[int], int],
        receive: Callable[[int, dict[str, Parts], int], None],
        start: int,
        foreseen: bool = True,
    ) -> None:
        super().__init__(1)
        del foreseen  # each step asks for itself
        self.ran = 0
        self._ask, self._receive, self._next = ask, receive, start
        self.arm([ask(start)])

    def applied(self) -> None:
        """The step is over."""
        detail = self._armed[0]
        self._sent.append({})
        _, sent = self.take()
        self._receive(self._next, sent.get(0, {}), detail)
        self._next += 1
        self.ran += 1
        self.arm([self._ask(self._next)])

    def close(self) -> None:
        """Nothing is due any more."""
        self.arm([0])


def value(part: Tensor) -> Tensor:
    """Returns a value that `snapshot` kept."""
    return part


def tracing() -> bool:
    """Whether what runs now may be traced again before it counts: never here."""
    return False


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


def written(train_function: Any, variables: Sequence[Any]) -> list[bool] | None:
    """Keras asks anew at each `fit` what is to be trained: nothing is kept."""
    del train_function, variables
    return None


def rebuild(
    model: Any,
    stream: Stream,
    before: Callable[[int], Any],
    after: Callable[..., Any],
) -> Any:
    """Returns a new train function that says before and after each execution."""
    del stream  # is reached from inside the step
    model.make_train_function(force=True)
    inner = model.train_function

    def train_function(data: Any) -> Any:
        before(1)
        return after(inner(data))

    return train_function


def as_written(function: Callable[..., Any]) -> Any:
    """Nothing rewrites functions here."""
    return function


class Probe(Recorder):
    """Notes activations and their gradients while a step runs."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[Leaf, Tensor] = {}
        self._gradients: dict[Leaf, Tensor] = {}

    def take(self) -> tuple[dict[Leaf, Tensor], dict[Leaf, Tensor], list[Leaf]]:
        """Returns values and gradients that can be used here, and who has none."""
        values, gradients = self._values, self._gradients
        self._values, self._gradients = {}, {}
        return values, gradients, []

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """A view, which is a node of its own in the graph, with a hook on it."""
        del keep
        self._values[leaf] = tensor.detach()
        marked = tensor.view_as(tensor)
        if marked.requires_grad:
            marked.register_hook(lambda dy: self._note(leaf, dy))
        return marked

    def listening(self) -> Any:
        """Nothing to listen to."""
        return contextlib.nullcontext()

    def _note(self, leaf: Leaf, gradient: Tensor) -> None:
        self._gradients[leaf] = gradient
