"""One kind of training run of the fault suite, and what is known to be wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from keras.callbacks import Callback

Train = Callable[[int, list[Callback]], Any]
"""Trains a new model from a seed, under these callbacks."""


@dataclass(frozen=True)
class Fault:
    """A family of training runs, one for each seed.

    Attributes:
        name: Of the family, unique.
        train: Builds data and a model from a seed, and trains it under callbacks.
        symptoms: What must be found; nothing in a healthy run.
        tolerated: What may be found beside it, because it follows from the fault.
    """

    name: str
    train: Train
    symptoms: frozenset[str] = field(default_factory=frozenset)
    tolerated: frozenset[str] = field(default_factory=frozenset)

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong in it."""
        return not self.symptoms
