"""What the other rooms and a backend say to each other.

A *program* is one forward pass written without any framework: it asks a `Recorder` to
mark each tensor whose gradient is wanted (a *leaf*), and gives back the number to
differentiate. A backend runs a program forward and backward, once, compiled where the
framework can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ._flow import Verdict

Tensor = Any
Parts = dict[str, Any]
"""What is sent out of a training step under one key: arrays by name."""
Taken = tuple[int, dict[int, dict[str, Parts]]]
"""How many steps ran, and what each sent, by the number of the step and the key."""
Leaf = Any
"""Hashable; what it means is the business of the room that marks it."""


@dataclass(frozen=True, slots=True)
class Sparse:
    """A gradient of which only some rows are not zero; repeated indices add up."""

    indices: Tensor
    values: Tensor
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program gives back."""

    value: Tensor
    """The target."""
    scale: Tensor | None
    """The loss scale: `value * scale` is differentiated, gradients divided by it."""
    outputs: dict[str, Tensor]
    facts: Any
    """What the program learned while it ran; the backend only hands it on."""
    extras: dict[str, Tensor] = field(default_factory=dict)
    """What else it computed and wants back."""


class Recorder(Protocol):
    """How a program talks to the backend while it runs."""

    def mark(self, leaf: Leaf, tensor: Tensor, *, keep: bool) -> Tensor:
        """Returns a tensor equal to `tensor`, whose gradient is wanted."""

    def can_leave(self, tensor: Tensor) -> bool:
        """Whether the tensor is visible outside, not inside a loop or a branch."""

    def is_dense(self, tensor: object) -> bool:
        """Whether it is a plain tensor of the framework, not ragged or sparse."""

    def place(self, address: str) -> AbstractContextManager[None]:
        """Notes that operations inside the `with` belong to this layer."""


Program = Callable[[Recorder, Sequence[Tensor], Sequence[Tensor]], Outcome]


@dataclass(frozen=True, slots=True)
class Passed:
    """One forward and one backward pass."""

    value: Tensor
    outputs: dict[str, Tensor]
    gradients: Mapping[Leaf, Tensor | Sparse | None]
    kept: Mapping[Leaf, Tensor]
    facts: Any
    verdicts: Mapping[Leaf, Verdict] = field(default_factory=dict)
    extras: Mapping[str, Tensor] = field(default_factory=dict)


class Runner(Protocol):
    """A program made ready to run on batches of one signature."""

    compiled: bool
    """Whether it holds a compiled pass, and nothing of the model, and may be kept."""
    facts: Any
    outputs: dict[str, tuple[int, ...]]

    def __call__(self, tensors: Sequence[Tensor]) -> Passed:
        """Runs forward and backward once."""
