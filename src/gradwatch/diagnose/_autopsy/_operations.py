"""The operations of a layer that can have made a value that is not finite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._arrays import is_bad, wide

_MOST = 200
"""Maximum number of suspicious operations kept of one layer: a loop repeats them."""
_MOVES = ("reshape", "squeeze", "identity", "view", "unsqueeze", "broadcast_in_dim")
"""Operations that compute nothing, between a sum and its root."""

Case = tuple[Callable[[np.ndarray, np.ndarray], Any], str, str]
"""A condition on two inputs of an operation, and words and advice where it holds."""

CLIP = "Clip the input to ±(1 - 1e-6)."
_DIVIDE: Case = (
    # The derivative divides by the square of the denominator.
    lambda _, y: y.astype("float32") ** 2 == 0,
    "division by a number so small that the derivative overflows",
    "Keep the denominator away from 0: add 1e-6, or use `maximum`.",
)


def _inverse(name: str) -> Case:
    words = f"{name} at ±1: the derivative is infinite there"
    return lambda x, _: np.abs(x) == 1, words, CLIP


STEEP: dict[str, Case] = {
    "sqrt": (
        lambda x, _: x == 0,
        "sqrt at 0: the derivative is infinite there",
        "Add a small number before the root: `sqrt(x + 1e-12)`.",
    ),
    "power": (
        lambda x, y: (x == 0) & (y < 1) & (y != 0),
        "power below 1 at 0: the derivative is infinite there",
        "Keep the base away from 0: `maximum(x, 1e-12)`.",
    ),
    "arccos": _inverse("arccos"),
    "arcsin": _inverse("arcsin"),
    "divide": _DIVIDE,
    "reciprocal": _DIVIDE,
}
"""Conditions on the first input and the last (the same if there is only one) at which
the derivative of an operation is infinite or undefined."""


@dataclass(frozen=True, slots=True)
class TracedOperation:
    """An operation with a result, or a derivative, that is not finite.

    Attributes:
        name: Its name, the same on every framework.
        inputs: The arrays that went in.
        outputs: The arrays that came out.
        after: The operation before it: a sum before a root makes a norm.
    """

    name: str
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    after: str

    @property
    def from_finite(self) -> bool:
        """True if something went in, and all of it was finite."""
        return bool(self.inputs) and not any(map(is_bad, self.inputs))

    @property
    def makes_nan(self) -> bool:
        """True if NaN came out and none went in."""
        came = any(np.isnan(wide(a)).any() for a in self.outputs)
        return came and not any(np.isnan(wide(a)).any() for a in self.inputs)

    @property
    def passes_on(self) -> bool:
        """True if what is not finite only went through."""
        return bool(self.inputs) and not self.from_finite and not self.makes_nan

    @property
    def dtype(self) -> str:
        """The dtype it computed in."""
        return str(self.outputs[0].dtype)


class OperationLog:
    """Sees every operation in the order of execution, and keeps the suspicious ones."""

    def __init__(self) -> None:
        self.suspects: list[TracedOperation] = []
        self._before = ""

    def __call__(
        self, name: str, inputs: list[np.ndarray], outputs: list[np.ndarray]
    ) -> None:
        """Looks at one operation."""
        # An empty tensor only takes memory, in which anything may lie.
        if "empty" in name or not outputs:
            return
        bad = any(map(is_bad, outputs))
        if inputs and name in STEEP and not bad:
            with np.errstate(all="ignore"):
                bad = bool(np.any(STEEP[name][0](wide(inputs[0]), wide(inputs[-1]))))
        if bad and len(self.suspects) < _MOST:
            copies = [np.array(a) for a in inputs], [np.array(a) for a in outputs]
            self.suspects.append(TracedOperation(name, *copies, self._before))
        if name not in _MOVES:
            self._before = name

    def forward(self) -> TracedOperation | None:
        """Returns the operation that made the first value that is not finite.

        Infinities are often meant, as in masks, and a constant is not at fault by
        itself. So an operation must have made one from finite numbers, or NaN out of
        none. Only if there is no such operation, a constant is to blame after all.
        """
        maker = None
        for operation in self.suspects:
            if operation.makes_nan:
                return operation if operation.from_finite else maker or operation
            if operation.from_finite and any(map(is_bad, operation.outputs)):
                maker = operation
        if maker is not None:
            return maker
        # Where a constant meets other numbers; before that it is only made a tensor.
        passing = (operation for operation in self.suspects if operation.passes_on)
        return min(passing, key=lambda one: all(map(is_bad, one.inputs)), default=None)

    def backward(self) -> TracedOperation | None:
        """Returns the last operation whose derivative is not finite at its inputs."""
        return self.suspects[-1] if self.suspects else None
