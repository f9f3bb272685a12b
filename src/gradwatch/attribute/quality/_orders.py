"""The positions of an input, in the order of their importance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..._errors import require
from .._place import Place, resized
from .._problem import Problem
from .._result import Attribution


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


def ground(a: Attribution, problem: Problem) -> tuple[list[bool], np.ndarray]:
    """Returns which of `free` are changed, and the importance of their positions.

    Positions are pixels, tokens, time steps or features; all channels of one belong
    together.

    Returns:
        True for each tensor that is changed; and an array [examples, positions].

    Raises:
        GradwatchError: If the values are of another shape than what they explain.
    """
    mapped, inputs = is_map(a), problem.free.places
    changed = [not mapped or _lies_over(a.places[0], own) for own in inputs]
    columns = [
        _importance(a.places[0 if mapped else number], _shape(own))
        for number, own in enumerate(inputs)
        if changed[number]
    ]
    return changed, np.concatenate(columns, axis=1)


def _shape(place: Place) -> tuple[int, ...]:
    """Returns the shape of the positions of a tensor, without the batch."""
    shape = enumerate(place.values.shape)
    return tuple(length for axis, length in shape if axis not in (0, place.channels))


def masks_of(
    places: Sequence[Place], changed: Sequence[bool], chosen: np.ndarray
) -> Iterator[np.ndarray]:
    """Turns [examples, positions] into a mask for each tensor, channels and all."""
    for place, is_changed in zip(places, changed, strict=True):
        shape, axis = _shape(place), place.channels
        mask, chosen = np.split(chosen, [math.prod(shape) if is_changed else 0], axis=1)
        mask = mask.reshape(len(chosen), *shape) if is_changed else np.array(False)
        yield mask if axis is None or not is_changed else np.expand_dims(mask, axis)


def _importance(place: Place, shape: tuple[int, ...]) -> np.ndarray:
    values = place.values.astype("float64")
    if place.channels is not None:
        values = values.sum(axis=place.channels)
    rule = "`a` must have a value for each position of what it explains, of shape "
    received = place.name, place.values.shape
    way_out = "Pass it as the method gave it."
    require(values.ndim == len(shape) + 1, f"{rule}{shape}.", received, way_out)
    values = resized(values, dict(enumerate(shape, start=1)))
    return values.reshape(len(values), -1)


def ranks(importance: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns the rank of each position in its example, from 0 for the largest.

    Of equal ones chance decides: their order in memory would be a picture of its own.
    """
    order = np.lexsort((random.random(importance.shape), -importance), axis=1)
    return np.argsort(order, axis=1).astype("int32")
