"""One tensor that was attributed to: an input of the model, or a layer's activation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from .._errors import require


@dataclass(frozen=True, slots=True)
class Place:
    """The values at one tensor, with what is known of its axes.

    Attributes:
        name: The address, as in `gradients`: `inputs`, `inputs[key]`, `conv@2`.
        values: What was attributed, the batch axis first.
        activation: The tensor itself, from the same pass.
        channels: The axis of `values` that holds channels or embedding dimensions;
            None where there is none: tabular data, units of a dense layer, a map that
            is summed over its channels.
    """

    name: str
    values: np.ndarray
    activation: np.ndarray
    channels: int | None = None

    @property
    def spatial(self) -> tuple[int, ...]:
        """The axes of space and time: all but the batch and the channels."""
        axes = range(1, self.values.ndim)
        if self.values.ndim == 2 and self.flat:
            return ()
        return tuple(axis for axis in axes if axis != self.channels)

    @property
    def flat(self) -> bool:
        """True if each number stands for itself: features of a table, units."""
        return self.activation.ndim <= 2

    def sum_channels(self) -> Place:
        """Returns the place with one number for each position in space and time."""
        rule = "`sum_channels` needs values with a channel axis."
        received = self.name, self.values.shape
        require(self.channels is not None, rule, received, "Use `.values` as they are.")
        return replace(self, values=self.values.sum(axis=self.channels), channels=None)

    def upsample(self, size: tuple[int, ...]) -> Place:
        """Returns the place with its axes of space and time resized, linearly."""
        axes = f"the {len(self.spatial)} spatial axes of {self.name!r}"
        rule = f"`size` must have one number for each of {axes}."
        require(len(self.spatial) == len(size) > 0, rule, size)
        sizes = dict(zip(self.spatial, size, strict=True))
        return replace(self, values=resized(self.values, sizes))

    def take(self, rows: slice | list[int]) -> Place:
        """Returns the place for some of the examples."""
        return replace(self, values=self.values[rows], activation=self.activation[rows])


def spread_over(maps: np.ndarray, place: Place) -> np.ndarray:
    """Resizes maps to the axes of space and time of a place, with room for channels."""
    sizes = [place.values.shape[axis] for axis in place.spatial]
    maps = resized(maps, dict(enumerate(sizes, start=1)))
    return maps if place.channels is None else np.expand_dims(maps, place.channels)


def resized(values: np.ndarray, sizes: Mapping[int, int]) -> np.ndarray:
    """Resizes axes to new lengths, by linear interpolation.

    Pixels are cells, and their centres are aligned. Doing it axis by axis is bilinear
    interpolation in two dimensions, trilinear in three. The same as
    `keras.ops.image.resize(…, "bilinear")`.

    Example:
    >>> resized(np.array([0.0, 1.0]), {0: 4})
    array([0.  , 0.25, 0.75, 1.  ])
    """
    for axis, length in sizes.items():
        old = values.shape[axis]
        if old == length:
            continue
        centres = np.clip((np.arange(length) + 0.5) * old / length - 0.5, 0, old - 1)
        low = np.floor(centres).astype(int)
        high = np.minimum(low + 1, old - 1)
        share = (centres - low).astype(values.dtype)
        share = np.expand_dims(share, [a for a in range(values.ndim) if a != axis])
        below, above = np.take(values, low, axis), np.take(values, high, axis)
        values = below * (1 - share) + above * share
    return values
