"""The contents of one panel: numbers, what they belong to, and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from .._format import printable

KINDS = ("image", "tokens", "bars", "lines")

DRAWN = 6
"""Lines that can be distinguished; of more, their mean is drawn."""
STRIPS = 16
"""Channels that get a strip of their own; more are added up."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The attribution of some examples to one tensor, made ready to be drawn.

    Attributes:
        kind: One of `KINDS`; it says which shapes follow.
        name: The name of the tensor.
        method: The attribution method.
        values: `[examples, height, width]` for images, `[examples, places]` for tokens
            and bars, `[examples, time, channels]` for lines.
        data: What they belong to: pictures between 0 and 1, grey or RGB; the features
            of a row; the lines. None where there is nothing to show.
        labels: The words of each example; the names of the features or channels.
        captions: A line for each example: what was explained, and its value.
        source: Tells panels of the same pictures from those of others.
        top: Maximum number of bars of an example; the rest is added up.
    """

    kind: str
    name: str
    method: str
    values: np.ndarray
    data: np.ndarray | None
    labels: Sequence[Sequence[str]]
    captions: Sequence[str]
    source: str = ""
    top: int = 12

    @property
    def heading(self) -> str:
        """The method, and the layer or input if it has a name of its own."""
        return self.method if self.name == "inputs" else f"{self.method}, {self.name}"

    @property
    def signed(self) -> bool:
        """True if a number is below zero."""
        return bool(np.any(self.values[np.isfinite(self.values)] < 0))

    @property
    def base(self) -> np.ndarray:
        """The pictures or lines below the values; zeros where there are none."""
        return self.values * 0.0 if self.data is None else self.data

    @property
    def strips(self) -> int:
        """The number of channels of a series that get a strip of their own."""
        channels: int = self.values.shape[2]
        return channels if 1 < channels <= STRIPS else 0

    def lines(self, row: int) -> tuple[np.ndarray, list[str]]:
        """Returns the lines of an example, `[time, lines]`, and their names."""
        data = self.base[row]
        channels = data.shape[1]
        if channels <= DRAWN:
            return data, [printable(name) for name in self.labels[0]]
        return data.mean(axis=1, keepdims=True), [f"mean of {channels} channels"]


def grouped(panels: Iterable[Panel]) -> Iterator[list[Panel]]:
    """Yields panels of the same pictures together, each other panel by itself."""

    def pictures(panel: Panel) -> tuple[str, str, tuple[int, ...]]:
        return panel.kind, panel.source, panel.base.shape

    for (kind, *_), members in groupby(panels, pictures):
        if kind == "image":
            yield list(members)
        else:
            yield from ([panel] for panel in members)


def broken(values: np.ndarray) -> str:
    """Returns a note on numbers that are not finite; "" if all are.

    Example:
    >>> broken(np.array([1.0, np.nan, np.inf, np.nan]))
    '3 of 4 values are not finite: 2 NaN, 1 inf'
    """
    counts = {"NaN": int(np.isnan(values).sum()), "inf": int(np.isinf(values).sum())}
    total = sum(counts.values())
    if not total:
        return ""
    kinds = [f"{count:,} {word}" for word, count in counts.items() if count]
    verb = "value is" if values.size == 1 else "values are"
    return f"{total:,} of {values.size:,} {verb} not finite: {', '.join(kinds)}"


def silent(values: np.ndarray) -> str:
    """Returns a note that all numbers are zero; "" if one is not."""
    if values.size == 0:
        return "there are no values"
    return f"all {values.size:,} values are zero" if not np.any(values) else ""


def left_out(values: np.ndarray, shown: Set[int]) -> str:
    """Returns a note on the sum of values that are not shown; "" if all are zero.

    Example:
    >>> left_out(np.array([1.0, 2.0, -0.5]), {0})
    '2 places are not shown; together: +1.5'
    """
    left = [index for index in range(len(values)) if index not in shown]
    if not np.any(values[left]):  # padding
        return ""
    places = "1 place is" if len(left) == 1 else f"{len(left):,} places are"
    return f"{places} not shown; together: {number(float(values[left].sum()))}"


def number(value: float) -> str:
    """Returns a number in a few characters, with its sign.

    Example:
    >>> number(0.01234), number(-12345.6), number(0.0)
    ('+0.0123', '−1.23e+04', '0')
    """
    return "0" if value == 0 else f"{value:+.3g}".replace("-", "−")
