"""The kind of picture an attribution becomes: image, words, bars or a series."""

from __future__ import annotations

import numpy as np

from .._errors import require
from ..show.attributed import KINDS
from ._checked import require_one_of
from ._place import Place


def kind_of(
    kind: str | None, place: Place, source: Place | None, *, words: bool
) -> str:
    """Returns the kind of panel: what the caller wants, or what the data suggests.

    Args:
        kind: What the caller wants, or None.
        place: What was attributed to.
        source: The input of the model that it belongs to.
        words: True if the caller gave words.

    Raises:
        GradwatchError: If the kind is none, or the tensor has other axes.
    """
    axes = len(place.spatial)
    if kind is None:
        series = "tokens" if words or (source and whole(source)) else "lines"
        return ("bars", series)[axes] if axes < 2 else "image"
    require_one_of(kind, "kind", KINDS)
    fits = kind == "bars" or (kind == "image") == (axes >= 2)
    needs = "two axes of space" if kind == "image" else "a single axis of time"
    rule = f"`kind` must suit the data: {kind!r} needs {needs}."
    received = place.name, place.values.shape
    require(fits, rule, received, "Leave it out, or use 'bars'.")
    return kind


def source_of(place: Place, sources: tuple[Place, ...]) -> Place | None:
    """Returns the input that a tensor lies over: itself, or the one of equal axes."""
    axes = len(place.spatial)
    own = [source for source in sources if source.name == place.name]
    alike = own or [s for s in sources if axes and len(_size(s)) == axes]
    if len(alike) > 1 and axes == 1:
        # Of tokens, their mask and their segment, the tokens differ the most.
        alike = [max(alike, key=lambda source: len(np.unique(source.values)))]
    return alike[0] if len(alike) == 1 else None


def whole(source: Place) -> bool:
    """Returns whether an input is made of whole numbers: tokens."""
    return source.values.dtype.kind in "iu"


def _size(source: Place) -> tuple[int, ...]:
    """Returns the lengths of an input's axes of space and time."""
    if whole(source) and source.values.ndim == 2:
        return source.values.shape[1:]
    return tuple(source.values.shape[axis] for axis in source.spatial)


def laid_over(place: Place, source: Place | None) -> Place:
    """Returns one number for each position, as many as the input has."""
    if place.channels is not None:
        place = place.sum_channels()
    if source is None or not place.spatial:
        return place
    return place.upsample(_size(source))


def pictures(place: Place) -> np.ndarray:
    """Returns the numbers of a tensor as pictures between 0 and 1, grey or RGB.

    What lies between 0 and 1, or between 0 and 255, is taken as it is; the rest is
    stretched, each example by itself.
    """
    data: np.ndarray = np.nan_to_num(place.activation.astype("float64"))
    axis = place.channels
    if axis is None and data.ndim > place.values.ndim:
        data = data.mean(axis=-1)  # a map of a layer, which has no input to lie over
    elif axis is not None:
        colours = data.shape[axis] == 3
        data = np.moveaxis(data, axis, -1) if colours else data.mean(axis=axis)
    each = tuple(range(1, data.ndim))
    low, high = data.min(axis=each, keepdims=True), data.max(axis=each, keepdims=True)
    if low.min() >= 0 and high.max() <= 1:
        return data
    if low.min() >= 0 and 1 < high.max() <= 255 and high.max() > 64:
        return data / 255
    return np.asarray((data - low) / np.where(high > low, high - low, 1.0))
