"""Notes activations and their gradients inside a training step."""

from __future__ import annotations

import contextlib
from typing import Any

from .._protocol import Leaf, Tensor
from .recorder import Recorder


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
