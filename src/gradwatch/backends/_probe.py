"""Activations and their gradients, noted inside a training step."""

from __future__ import annotations

import contextlib
from typing import Any

from ._protocol import Leaf, Noted, Probe, Tensor


class BaseProbe(Probe):
    """Notes tensors while a step is traced, or runs.

    `mark` is each framework's: it returns a tensor equal to the one it is given, and
    notes the gradient when the backward pass comes by.
    """

    def __init__(self) -> None:
        self._values: dict[Leaf, tuple[Any, Tensor]] = {}
        self._gradients: dict[Leaf, tuple[Any, Tensor]] = {}

    def scope(self) -> Any:
        """Returns the trace in which tensors live; a loop's body has its own."""
        return None

    def note_value(self, leaf: Leaf, tensor: Tensor) -> None:
        """Keeps an activation."""
        self._values[leaf] = (self.scope(), tensor)

    def note_gradient(self, leaf: Leaf, tensor: Tensor) -> None:
        """Keeps the gradient of an activation."""
        self._gradients[leaf] = (self.scope(), tensor)

    def take(self) -> Noted:
        """Returns what was noted in the scope of the step, and starts over."""
        here = self.scope()
        values, gradients = (
            {leaf: t for leaf, (scope, t) in noted.items() if scope == here}
            for noted in (self._values, self._gradients)
        )
        hidden = [leaf for leaf in self._values if leaf not in values]
        self._values, self._gradients = {}, {}
        return values, gradients, hidden

    def can_leave(self, tensor: Tensor) -> bool:
        """Returns True: `take` sorts out what lives inside a loop or a branch."""
        del tensor
        return True

    def layer(self, address: str) -> contextlib.AbstractContextManager[None]:
        """Does nothing: the layers of operations are not asked for."""
        del address
        return contextlib.nullcontext()
