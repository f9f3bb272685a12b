"""Options of a pass: how it may differ from the model's own forward pass."""

from __future__ import annotations

from dataclasses import dataclass

from ..select import Leaf


@dataclass(frozen=True, slots=True)
class PassOptions:
    """Options of a pass.

    Attributes:
        each: Whether the target is one number per example. The numbers are then in
            `Captured.extras["scores"]`.
        differentiate: False runs the forward pass only.
        rule: Name of another backward rule for nonlinearities; see `engine/_rules.py`.
        given: Activations that are passed with the batch instead of computed. The
            model continues from them.
    """

    each: bool = False
    differentiate: bool = True
    rule: str | None = None
    given: tuple[Leaf, ...] = ()


PLAIN = PassOptions()
