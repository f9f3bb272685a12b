"""Perturbations: changes of an input, to compare with what its values foretell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..._errors import GradwatchError
from .._place import Place
from .._problem import Problem

NAMES = ("noisy_baseline", "square")

Perturbation: TypeAlias = str | Callable[[np.ndarray, np.random.Generator], np.ndarray]


@dataclass(slots=True)
class Perturbed:
    """Draws perturbations I of a batch; each is the same whenever it is drawn.

    Attributes:
        problem: Says which numbers there are.
        perturbation: One of `NAMES`, or a function of the values and a generator.
        covers: The baseline of each tensor.
        size: The noise of a noisy baseline, as a share of each example's range; or
            the side of the square, as a share of each axis.
        seed: Of the draws.
    """

    problem: Problem
    perturbation: Perturbation
    covers: Sequence[np.ndarray]
    size: float
    seed: int
    _last: tuple[int, list[np.ndarray]] = (-1, [])

    def __post_init__(self) -> None:
        if not callable(self.perturbation) and self.perturbation not in NAMES:
            raise GradwatchError(
                f"`perturbation` must be one of {NAMES}, or a function of the values "
                f"and a NumPy generator. Received: {self.perturbation!r}."
            )

    def __call__(self, number: int) -> list[np.ndarray]:
        """Returns the perturbation of that number, for each tensor."""
        if self._last[0] != number:
            random = np.random.default_rng([self.seed, number])
            indices = range(len(self.covers))
            self._last = number, [self._drawn(index, random) for index in indices]
        return self._last[1]

    def _drawn(self, index: int, random: np.random.Generator) -> np.ndarray:
        values, cover = self.problem.free.values[index], self.covers[index]
        if callable(self.perturbation):
            return _checked(self.perturbation(values.copy(), random), values)
        if self.perturbation == "square":
            return np.where(self._square(index, random), values - cover, 0)
        axes = tuple(range(1, values.ndim))
        scale = self.size * np.ptp(values, axis=axes, keepdims=True)
        noise = random.standard_normal(values.shape, "float32")
        return np.asarray(values - (cover + scale * noise))

    def _square(self, index: int, random: np.random.Generator) -> np.ndarray:
        """Returns a mask of a square of each example, with all its channels."""
        free = self.problem.free
        values, channels = free.values[index], self.problem.channel_axes(free)[index]
        axes = Place("", values, values, channels).spatial
        if not axes:
            # Features of a table have no neighbours: a square is any set of them.
            count = max(1, round(self.size * values[0].size))
            keys = random.random((len(values), values[0].size))
            inside = np.argsort(np.argsort(keys, axis=1), axis=1) < count
            return np.asarray(inside.reshape(values.shape))
        inside = np.ones(values.shape, bool)
        for axis in axes:
            length = values.shape[axis]
            side = max(1, round(self.size * length))
            starts = random.integers(length - side + 1, size=len(values))
            at = np.arange(length) - starts[:, None]
            shape = [len(values), *[1] * (values.ndim - 1)]
            shape[axis] = length
            inside &= ((at >= 0) & (at < side)).reshape(shape)
        return inside


def _checked(drawn: Any, values: np.ndarray) -> np.ndarray:
    array = np.asarray(drawn)
    if array.shape != values.shape or array.dtype.kind not in "fiu":
        raise GradwatchError(
            "`perturbation` must give what is taken away from each number, in shape "
            f"{values.shape}. Received: an array of shape {array.shape} and dtype "
            f"{array.dtype}. The model sees the input minus it."
        )
    if not np.isfinite(array).all():
        raise GradwatchError(
            "`perturbation` must give finite numbers. Received: NaN or ∞."
        )
    return array.astype(values.dtype)
