"""Perturbations: changes of an input, to compare with what its values foretell."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._errors import require
from .._noise import ranges
from .._place import Place

NAMES = ("noisy_baseline", "square")

Perturbation: TypeAlias = str | Callable[[np.ndarray, np.random.Generator], np.ndarray]


def perturbations(
    places: Sequence[Place],
    perturbation: Perturbation,
    covers: Sequence[np.ndarray],
    size: float,
    seed: int,
) -> Callable[[int], list[np.ndarray]]:
    """Returns a function that draws a perturbation I of a batch, by its number.

    Args:
        places: The tensors that are perturbed.
        perturbation: One of `NAMES`, or a function of the values and a generator.
        covers: The baseline of each tensor.
        size: The noise of a noisy baseline, as a share of each example's range; or
            the side of the square, as a share of each axis.
        seed: Of the draws: one of a number is the same whenever it is drawn.

    Raises:
        GradwatchError: If there is no such perturbation.
    """
    rule = f"`perturbation` must be one of {NAMES}, or a function of the values "
    rule += "and a NumPy generator."
    require(callable(perturbation) or perturbation in NAMES, rule, perturbation)

    def drawn(place: Place, cover: np.ndarray, random: np.random.Generator) -> Any:
        values = place.values
        if callable(perturbation):
            return _checked(perturbation(values.copy(), random), values)
        if perturbation == "square":
            return np.where(_square(place, size, random), values - cover, 0)
        noise = random.standard_normal(values.shape, "float32")
        return np.asarray(values - (cover + size * ranges(values) * noise))

    @functools.lru_cache(1)  # Examples that do not fit one pass ask for the same.
    def draw(number: int) -> list[np.ndarray]:
        random = np.random.default_rng([seed, number])
        return [drawn(*pair, random) for pair in zip(places, covers, strict=True)]

    return draw


def _square(place: Place, size: float, random: np.random.Generator) -> np.ndarray:
    """Returns a mask of a square of each example, with all its channels."""
    values = place.values
    if not place.spatial:
        # Features of a table have no neighbours: a square is any set of them.
        count = max(1, round(size * values[0].size))
        keys = random.random((len(values), values[0].size))
        inside = np.argsort(np.argsort(keys, axis=1), axis=1) < count
        return np.asarray(inside.reshape(values.shape))
    inside = np.ones(values.shape, bool)
    for axis in place.spatial:
        length = values.shape[axis]
        side = max(1, round(size * length))
        starts = random.integers(length - side + 1, size=len(values))
        at = np.arange(length) - starts[:, None]
        shape = [len(values), *[1] * (values.ndim - 1)]
        shape[axis] = length
        inside &= ((at >= 0) & (at < side)).reshape(shape)
    return inside


def _checked(drawn: Any, values: np.ndarray) -> np.ndarray:
    array = np.asarray(drawn)
    fits = array.shape == values.shape and array.dtype.kind in "fiu"
    fits = fits and bool(np.isfinite(array).all())
    rule = "`perturbation` must give what is taken away from each number, in finite "
    received = {"shape": array.shape, "dtype": array.dtype.name, "values": array}
    way_out = "The model sees the input minus it."
    require(fits, f"{rule}numbers of shape {values.shape}.", received, way_out)
    return array.astype(values.dtype)
