"""The way from inside a training step of `fit` to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._protocol import Parts, Taken, Tensor


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
