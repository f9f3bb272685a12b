"""The positions of an input, in the order of their importance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._errors import GradwatchError, quoted
from .._place import Place
from .._problem import Problem
from .._resize import resized
from .._result import Attribution


@dataclass(frozen=True, slots=True)
class Ground:
    """The positions of a batch: pixels, tokens, time steps, features.

    All channels of a position belong together.
    """

    shapes: list[tuple[int, ...] | None]
    """Shape of the positions of each tensor, without the batch; None: not changed."""
    channels: list[int | None]

    @property
    def count(self) -> int:
        """Number of positions of an example."""
        return sum(int(np.prod(shape)) for shape in self.shapes if shape is not None)

    def masks(self, chosen: np.ndarray) -> list[np.ndarray | None]:
        """Turns [examples, positions] into a mask for each tensor, channels and all."""
        masks: list[np.ndarray | None] = []
        start = 0
        for shape, axis in zip(self.shapes, self.channels, strict=True):
            if shape is None:
                masks.append(None)
                continue
            stop = start + int(np.prod(shape))
            mask = chosen[:, start:stop].reshape(len(chosen), *shape)
            masks.append(mask if axis is None else np.expand_dims(mask, axis))
            start = stop
        return masks


def is_map(a: Attribution) -> bool:
    """Returns whether it is a map over a layer, to be laid over the inputs.

    So are class activation maps, and what was summed over the channels of a layer in a
    model of images. Tokens are no places to lay a map over: they have no numbers that
    could be taken away.
    """
    if a.layer is None or len(a.places) != 1:
        return False
    place = a.places[0]
    flat = place.values.ndim < place.activation.ndim and place.spatial
    return bool(flat) and any(_lies_over(place, source) for source in a.sources)


def _lies_over(place: Place, source: Place) -> bool:
    floating = source.values.dtype.kind == "f"
    return floating and len(source.spatial) == len(place.spatial)


def ground(a: Attribution, problem: Problem) -> tuple[Ground, np.ndarray]:
    """Returns the positions, and the importance of each: [examples, positions].

    Raises:
        GradwatchError: If the values are of another shape than what they explain.
    """
    free = problem.free
    shapes: list[tuple[int, ...] | None] = []
    columns = []
    mapped = is_map(a)
    axes = problem.channel_axes(free)
    for number, (name, values, axis) in enumerate(
        zip(free.names, free.values, axes, strict=True)
    ):
        place = a.places[0 if mapped else number]
        if mapped and not _lies_over(place, Place(name, values, values, axis)):
            shapes.append(None)
            continue
        shape = tuple(n for i, n in enumerate(values.shape) if i not in (0, axis))
        shapes.append(shape)
        columns.append(_importance(place, shape))
    return Ground(shapes, axes), np.concatenate(columns, axis=1)


def _importance(place: Place, shape: tuple[int, ...]) -> np.ndarray:
    values = place.values.astype("float64")
    if place.channels is not None:
        values = values.sum(axis=place.channels)
    if values.ndim != len(shape) + 1:
        raise GradwatchError(
            "`a` must have a value for each position of what it explains. Received: "
            f"values of shape {place.values.shape} for {quoted([place.name])}, whose "
            f"positions are {shape}. Pass it as the method gave it."
        )
    for axis, length in enumerate(shape, start=1):
        values = resized(values, axis, length)
    return values.reshape(len(values), -1)


def ranks(importance: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns the rank of each position in its example, from 0 for the largest.

    Of equal ones chance decides: their order in memory would be a picture of its own.
    """
    chance = random.random(importance.shape)
    order = np.lexsort((chance, -importance), axis=1)
    return np.argsort(order, axis=1).astype("int32")
