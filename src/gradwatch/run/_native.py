"""What TensorBoard shows of a run by itself, without our plugin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summarise import LOWEST, OCTAVES
from ._layout import Record
from ._numbers import numbers
from ._protos import protos

_WIDTH = math.log10(2.0)
_TITLE = "log10_gradient"
_DESCRIPTION = "log10 of the absolute gradient. Zeros are not in it."

Make = Callable[[Record, set[str]], list[Any]]
"""A record, and the tags that a file knows, to TensorBoard's values."""


class Throttle:
    """Lets a record through at most so often; the last one waits until it is asked for.

    Attributes:
        waits: The newest record that was not let through.
    """

    def __init__(self, make: Make, every_seconds: float) -> None:
        self.make = make
        self.waits: Record | None = None
        self._every = every_seconds
        self._at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Tells whether a record waits, and has waited long enough."""
        return self.waits is not None and now - self._at >= self._every

    def done(self, now: float) -> None:
        """Notes that the record which waited is on disk."""
        self.waits, self._at = None, now


def native_scalars(record: Record, told: set[str]) -> list[Any]:
    """Returns the curves of the Scalars tab."""
    del told  # They have no metadata.
    # Scalars of the first kind: TensorBoard reads them as those of today, and they cost
    # a fifth, in time and on disk.
    make, found = protos().Value, numbers(record)
    # NumPy rounds what is too large for a float32 to `inf`; protobuf may refuse it.
    with np.errstate(over="ignore"):
        narrow = np.array(list(found.values()), np.float64).astype(np.float32).tolist()
    return [
        make(tag=tag, simple_value=number)
        for tag, number in zip(found, narrow, strict=True)
    ]


def native_text(text: str) -> Any:
    """Returns what the Text tab shows of a finding."""
    p = protos()
    tensor = p.Tensor(dtype=p.DT_STRING, string_val=[text.encode()])
    value = p.Value(tag="findings", tensor=tensor)
    value.metadata.plugin_data.plugin_name = "text"
    value.metadata.data_class = p.DATA_CLASS_TENSOR
    return value


def native_histograms(record: Record, told: set[str]) -> list[Any]:
    """Returns what the Histograms and Distributions tabs show of each weight.

    Args:
        record: The step to show.
        told: Tags whose metadata the file holds already.
    """
    if record.histograms is None:
        return []
    names, kinds = record.layout.names, record.layout.kinds
    lines = [line for line, kind in enumerate(kinds) if kind == "weight"]
    tags = [f"{names[line]}/{_TITLE}" for line in lines]
    return [
        _histogram(tag, bins, described=tag not in told)
        for tag, bins in zip(tags, log10_bins(record.histograms[lines]), strict=True)
        if bins is not None
    ]


def log10_bins(counts: NDArray[np.integer]) -> list[NDArray[np.float64] | None]:
    """Returns for each line `[k, 3]`: left edges, right edges and counts of log10|g|.

    One bin per octave, both signs together, from the first to the last that is used;
    `None` if none is. TensorBoard redraws every histogram in 30 bins of equal width: of
    raw gradients it makes one spike, of their logarithms it shows the shape.

    Example:
    >>> counts = np.zeros((1, 128), int)
    >>> counts[0, [63 - 40, 64 + 40]] = 2, 3  # in [1, 2) and its negative
    >>> log10_bins(counts)[0].round(2).tolist()
    [[0.0, 0.3, 5.0]]
    """
    # In 64 bits, in which the sum of both signs cannot run over.
    counts = counts.astype(np.int64)
    octaves = counts[:, OCTAVES:] + counts[:, OCTAVES - 1 :: -1]
    lower = LOWEST + np.arange(OCTAVES)
    bins = np.empty((*octaves.shape, 3))
    bins[..., 0], bins[..., 1], bins[..., 2] = (
        lower * _WIDTH,
        (lower + 1) * _WIDTH,
        octaves,
    )
    used = octaves != 0
    first = used.argmax(axis=1)
    last = OCTAVES - used[:, ::-1].argmax(axis=1)
    return [
        bins[line, first[line] : last[line]] if some else None
        for line, some in enumerate(used.any(axis=1))
    ]


def _histogram(tag: str, bins: NDArray[np.float64], *, described: bool) -> Any:
    p = protos()
    shape = p.Shape(dim=[p.Shape.Dim(size=len(bins)), p.Shape.Dim(size=3)])
    tensor = p.Tensor(
        dtype=p.DT_DOUBLE, tensor_shape=shape, tensor_content=bins.tobytes()
    )
    value = p.Value(tag=tag, tensor=tensor)
    if described:
        value.metadata.plugin_data.plugin_name = "histograms"
        value.metadata.data_class = p.DATA_CLASS_TENSOR
        value.metadata.summary_description = _DESCRIPTION
    return value
