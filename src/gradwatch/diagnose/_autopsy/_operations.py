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
        if "empty" in name:
            return  # it only takes memory, in which anything may lie
        if not outputs:
            return
        bad = any(map(is_bad, outputs)) or _is_steep(name, [wide(a) for a in inputs])
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
        makers = [
            (number, operation)
            for number, operation in enumerate(self.suspects)
            if operation.from_finite and any(map(is_bad, operation.outputs))
        ]
        for number, operation in enumerate(self.suspects):
            if operation.makes_nan:
                earlier = [maker for at, maker in makers if at < number]
                return (
                    operation if operation.from_finite or not earlier else earlier[-1]
                )
        if makers:
            return makers[-1][1]
        # Where a constant meets other numbers; before that it is only made a tensor.
        passing = [operation for operation in self.suspects if operation.passes_on]
        passing.sort(key=lambda operation: all(map(is_bad, operation.inputs)))
        return passing[0] if passing else None

    def backward(self) -> TracedOperation | None:
        """Returns the last operation whose derivative is not finite at its inputs."""
        return self.suspects[-1] if self.suspects else None


def _is_steep(name: str, inputs: list[np.ndarray]) -> bool:
    """Returns whether the derivative is infinite, or undefined, at these inputs."""
    if not inputs or name not in _STEEP:
        return False
    with np.errstate(all="ignore"):
        return bool(np.any(_STEEP[name](inputs[0], inputs[-1])))


def _square_is_zero(_: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Returns where the square is zero by which the derivative divides."""
    return np.asarray(denominator.astype("float32") ** 2 == 0)


def _at_one(x: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(x) == 1)


# The first input and the last, which is the same if there is only one.
_STEEP: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "sqrt": lambda x, _: x == 0,
    "arccos": _at_one,
    "arcsin": _at_one,
    "power": lambda x, y: (x == 0) & (y < 1) & (y != 0),
    "divide": _square_is_zero,
    "reciprocal": _square_is_zero,
}
