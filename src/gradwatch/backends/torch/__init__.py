"""torch: autograd; the parameters themselves are the leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from .._protocol import Backend, Tensor
from .graph import traced
from .passes import TorchRunner, TorchTape
from .step import TorchWatchedStep


class Torch(Backend):
    """The backend for `KERAS_BACKEND=torch`."""

    watching = TorchWatchedStep()
    prepare = TorchRunner
    tape = TorchTape
    traced = staticmethod(traced)

    def is_eager(self, tensor: Tensor) -> bool:
        """Returns True: in torch every tensor has a value."""
        del tensor
        return True

    def raw_state(self, layers: Sequence[Any]) -> list[Any]:
        """Returns the buffers of wrapped modules, which Keras does not protect."""
        return [b for layer in layers for b in getattr(layer, "buffers", list)()]

    @contextlib.contextmanager
    def restored(self, raw: Sequence[Any]) -> Iterator[None]:
        """Gives buffers their values, and torch its random state, back."""
        before = [buffer.clone() for buffer in raw]
        with torch.random.fork_rng():
            try:
                yield
            finally:
                with torch.no_grad():
                    for buffer, value in zip(raw, before, strict=True):
                        buffer.copy_(value)

    def random_state(self) -> list[np.ndarray]:
        """Returns the random state from which a dropout without a seed draws."""
        states = [torch.get_rng_state()]
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            states += torch.cuda.get_rng_state_all()
        return [state.numpy() for state in states]

    def set_random_state(self, states: Sequence[np.ndarray]) -> None:
        """Sets the random state of torch; an empty one leaves it as it is."""
        if not len(states):
            return
        own, *others = [torch.from_numpy(np.array(state)) for state in states]
        torch.set_rng_state(own)
        if torch.cuda.is_available() and len(others) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(others)


BACKEND = Torch()
