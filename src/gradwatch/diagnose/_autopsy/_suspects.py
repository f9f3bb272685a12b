"""Of all operations of a layer, those that can be to blame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._numbers import is_bad, wide

KEPT = 200
"""Suspects kept of one layer: a loop repeats the same few."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """An operation with a result, or a derivative, that is not finite."""

    name: str
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    after: str
    """The operation before it: a sum before a root makes a norm."""

    @property
    def from_finite(self) -> bool:
        """Whether all that went in was finite, and something did go in."""
        return bool(self.inputs) and not any(is_bad(a) for a in self.inputs)

    @property
    def makes_nan(self) -> bool:
        """Whether NaN came out and none went in."""
        came = any(np.isnan(a).any() for a in self.outputs)
        return came and not any(np.isnan(a).any() for a in self.inputs)

    @property
    def passes_on(self) -> bool:
        """Whether what is not finite went in as it came out: nothing was computed."""
        return bool(self.inputs) and not self.from_finite and not self.makes_nan

    @property
    def dtype(self) -> str:
        """The dtype it computed in."""
        return str(self.outputs[0].dtype)


_MOVES = ("reshape", "squeeze", "identity", "view", "unsqueeze", "broadcast_in_dim")
"""Operations that compute nothing, between a sum and its root."""


class Lookout:
    """Is told of every operation, and keeps the suspects."""

    def __init__(self) -> None:
        self.suspects: list[Suspect] = []
        self._before = ""

    def __call__(
        self, name: str, inputs: list[np.ndarray], outputs: list[np.ndarray]
    ) -> None:
        """Looks at one operation."""
        if "empty" in name:
            return  # it only takes memory, in which anything may lie
        if outputs and len(self.suspects) < KEPT:
            bad = any(is_bad(wide(a)) for a in outputs)
            if bad or steep(name, [wide(a) for a in inputs]):
                copies = [np.array(a) for a in inputs]
                results = [np.array(a) for a in outputs]
                self.suspects.append(Suspect(name, copies, results, self._before))
        if outputs and name not in _MOVES:
            self._before = name

    def forward(self) -> Suspect | None:
        """Returns the operation that made the first value that is not finite.

        Infinities are often meant, as in masks, and constants are nobody's fault: so
        an operation must have made one from finite numbers, or NaN out of none. Only
        where none did, a constant is to blame after all.
        """
        makers = [
            (i, s)
            for i, s in enumerate(self.suspects)
            if s.from_finite and any(is_bad(wide(a)) for a in s.outputs)
        ]
        for i, suspect in enumerate(self.suspects):
            if suspect.makes_nan:
                before = [s for j, s in makers if j < i]
                return before[-1] if before and not suspect.from_finite else suspect
        # Where it meets other numbers; before that it is only made a tensor.
        given = [s for s in self.suspects if s.passes_on]
        given.sort(key=lambda s: all(is_bad(wide(a)) for a in s.inputs))
        return makers[-1][1] if makers else next(iter(given), None)

    def backward(self) -> Suspect | None:
        """Returns the last operation whose derivative is not finite where it was."""
        return self.suspects[-1] if self.suspects else None


def steep(name: str, inputs: list[np.ndarray]) -> bool:
    """Whether the derivative is infinite, or undefined, at these inputs."""
    if not inputs or name not in _STEEP:
        return False
    with np.errstate(all="ignore"):
        return bool(np.any(_STEEP[name](inputs[0], inputs[-1])))


def _tiny(_: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Where the square, by which the derivative divides, is zero."""
    return np.asarray(denominator.astype("float32") ** 2 == 0)


def _at_one(x: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(x) == 1)


# The first input and the last, which is the same if there is only one.
_STEEP: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "sqrt": lambda x, _: x == 0,
    "arccos": _at_one,
    "arcsin": _at_one,
    "power": lambda x, y: (x == 0) & (y < 1) & (y != 0),
    "divide": _tiny,
    "reciprocal": _tiny,
}
