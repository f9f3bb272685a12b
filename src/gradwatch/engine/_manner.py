"""In which ways a pass may differ from the model's own."""

from __future__ import annotations

from dataclasses import dataclass

from ._leaf import Leaf


@dataclass(frozen=True, slots=True)
class Manner:
    """What is changed in a pass, and what of it is wanted.

    Attributes:
        each: Whether the target is one number per example; the numbers are then in the
            `scores` of what was captured.
        differentiate: False runs forward only.
        rule: How gradients pass through nonlinearities; see `engine/_rules.py`.
        given: The activations that are given with the batch, instead of computed; the
            model runs on from there.
    """

    each: bool = False
    differentiate: bool = True
    rule: str | None = None
    given: tuple[Leaf, ...] = ()


PLAIN = Manner()
