"""The scalars, histograms, text and images that TensorBoard's standard tabs show."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summarise import COLUMNS, LOWEST, OCTAVES, is_blank
from ._event_file import EventFile, doubles, event, protos, strings, value
from ._schema import Record

_NORM = COLUMNS.index("norm")
_SUFFIX = {"weight": "norm", "activation": "gradient_norm"}
_WIDTH = math.log10(2.0)
_TITLE = "log10_gradient"
_DESCRIPTION = "log10 of the absolute gradient. Zeros are not in it."


@dataclass
class Throttle:
    """Limits how often records become values; the newest one waits in between.

    Args:
        make: Makes the values of a record, given the tags that a file describes.
        every_seconds: Seconds between two records.
        histograms: True to pass over records without histograms.
    """

    make: Callable[[Record, set[str]], list[Any]]
    every_seconds: float
    histograms: bool = False
    _waiting: Record | None = field(init=False, default=None)
    _at: float = field(init=False, default=float("-inf"))

    def offer(self, *records: Record) -> None:
        """Lets the newest record wait in place of the one before it."""
        for record in records:
            if self._waiting is not None and record.step <= self._waiting.step:
                self._waiting = None  # The training went back: superseded.
            if record.histograms is not None or not self.histograms:
                self._waiting = record

    def due(self, now: float | None) -> Record | None:
        """Returns the waiting record if it is due by now; in any case without `now`."""
        early = now is not None and now - self._at < self.every_seconds
        return None if early else self._waiting

    def done(self, now: float) -> None:
        """Notes that the record which waited is on disk."""
        self._waiting, self._at = None, now


def numbers(record: Record) -> dict[str, float]:
    """Returns the numbers of a step that other tools draw as curves, by name.

    What was not measured is absent.

    Example:
    >>> from gradwatch.run import Layout, Record
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> layout = Layout(("conv1/kernel",), ("weight",), (9,))
    >>> numbers(Record(0, layout, rows, None, {"global_norm": 0.5}))
    {'gradients/global_norm': 0.5, 'conv1/kernel/norm': 0.5}
    """
    totals, layout = record.totals, record.layout
    result = {}
    if "global_norm" in totals:
        result["gradients/global_norm"] = float(totals["global_norm"])
    if "update_norm" in totals and totals.get("weight_norm", 0):
        ratio = float(totals["update_norm"]) / float(totals["weight_norm"])
        result["gradients/update_ratio"] = ratio
    norms = record.rows[:, _NORM]
    each = zip(layout.names, layout.kinds, norms.tolist(), is_blank(norms), strict=True)
    for name, kind, norm, absent in each:
        if kind in _SUFFIX and not absent:
            result[f"{name}/{_SUFFIX[kind]}"] = norm
    return result


def native_scalars(record: Record, described: set[str]) -> list[Any]:
    """Returns the curves of the Scalars tab."""
    del described  # They have no metadata.
    # Scalars of the first kind: TensorBoard reads them as those of today, and they cost
    # a fifth, in time and on disk.
    make, named = protos().Summary.Value, numbers(record)
    # NumPy rounds what is too large for a float32 to `inf`; protobuf may refuse it.
    with np.errstate(over="ignore"):
        narrow = np.array(list(named.values()), np.float64).astype(np.float32).tolist()
    return [
        make(tag=tag, simple_value=number)
        for tag, number in zip(named, narrow, strict=True)
    ]


def native_text(text: str) -> Any:
    """Returns a finding for the Text tab."""
    p = protos()
    # A scalar: of a vector the tab would make a table.
    tensor = p.TensorProto(dtype=p.DT_STRING, string_val=[text.encode()])
    return value("findings", tensor, "text")


def native_histograms(record: Record, described: set[str]) -> list[Any]:
    """Returns the histograms of each weight, for the Histograms and Distributions tabs.

    Args:
        record: The step to show.
        described: Tags whose metadata the file holds already.
    """
    if record.histograms is None:
        return []
    names, kinds = record.layout.names, record.layout.kinds
    rows = [row for row, kind in enumerate(kinds) if kind == "weight"]
    values = []
    for row, bins in zip(rows, log10_bins(record.histograms[rows]), strict=True):
        tag = f"{names[row]}/{_TITLE}"
        if bins is not None:
            plugin = None if tag in described else "histograms"
            about = {"summary_description": _DESCRIPTION}
            values.append(value(tag, doubles(bins), plugin, **about))
    return values


def log10_bins(counts: NDArray[np.integer]) -> list[NDArray[np.float64] | None]:
    """Returns for each row `[k, 3]`: left edges, right edges and counts of log10|g|.

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
    edges = _WIDTH * (LOWEST + np.arange(OCTAVES + 1) + np.zeros((len(counts), 1)))
    bins = np.stack([edges[:, :-1], edges[:, 1:], octaves], axis=-1)
    used = octaves != 0
    first = used.argmax(axis=1)
    last = OCTAVES - used[:, ::-1].argmax(axis=1)
    return [
        bins[row, first[row] : last[row]] if some else None
        for row, some in enumerate(used.any(axis=1))
    ]


class ImageWriter(EventFile):
    """Writes pictures into an event file of their own.

    Each is in the file when `write` returns. Unlike `RunWriter`, it raises what the
    disk raises: the caller has a few pictures, and can report it better.

    Example:
    >>> writer = ImageWriter("runs/a/pictures")
    >>> writer.write(0, "why", b"...a PNG...", (640, 480))
    >>> writer.close()
    >>> len(list(writer.directory.iterdir()))
    1

    Args:
        directory: The directory for the file, made with the first picture. It should
            hold no other run: TensorBoard follows one growing file of a directory at a
            time.
    """

    def write(self, step: int, tag: str, png: bytes, size: tuple[int, int]) -> None:
        """Appends a picture.

        Args:
            step: Step of the training.
            tag: The name of the picture; steps of one name are a row with a slider.
            png: The contents of a PNG file.
            size: Its width and height.

        Raises:
            OSError: When it cannot be written; nothing of it is then in the file.
        """
        # The layout of the images plugin: width and height as text, then the files.
        tensor = strings(*(str(length).encode() for length in size), png)
        data_class = protos().DATA_CLASS_BLOB_SEQUENCE
        image = value(tag, tensor, "images", data_class=data_class)
        self.prepare()
        self.append(event(step, summary={"value": [image]}))
