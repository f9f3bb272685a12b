"""The quantities that a picture can show: label, scale, and how each is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...run import KINDS, Chunk
from ...summarise import is_blank

Numbers = NDArray[np.float64]
Measured = NDArray[np.bool_] | None
"""True where a number was measured; `None` for everywhere."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of each row and step that a picture can show.

    Attributes:
        name: Its name in requests and data.
        label: Its name on the screen.
        scale: "log", or "share" for numbers from 0 to 1.
        kinds: The kinds of rows that have it.
        meaning: One sentence.
        of: Returns the numbers of some steps of a chunk, `[steps, rows]`, and where
            they were measured.
        percent: True if the number is a share that is shown in per cent.
    """

    name: str
    label: str
    scale: Literal["log", "share"]
    kinds: tuple[str, ...]
    meaning: str
    of: Callable[[Chunk, slice], tuple[Numbers, Measured]]
    percent: bool = False

    @property
    def axis_label(self) -> str:
        """The label on an axis whose ticks say "%" themselves."""
        return f"share {self.label}" if self.percent else self.label


def column(name: str) -> Callable[[Chunk, slice], tuple[Numbers, Measured]]:
    """Returns a function that reads a recorded column."""

    def of(chunk: Chunk, rows: slice) -> tuple[Numbers, Measured]:
        numbers = chunk.column(name)[rows]
        # The maximum is NaN if any of them is: most often none is, and that is all.
        if not np.isnan(numbers.max(initial=0.0)):
            return numbers, None
        return numbers, ~is_blank(numbers)

    return of


def _update_ratio(chunk: Chunk, rows: slice) -> tuple[Numbers, Measured]:
    update, first = column("update_norm")(chunk, rows)
    weight, second = column("weight_norm")(chunk, rows)
    with np.errstate(all="ignore"):
        return update / weight, _both(first, second)


def _largest(chunk: Chunk, rows: slice) -> tuple[Numbers, Measured]:
    low, first = column("min")(chunk, rows)
    high, second = column("max")(chunk, rows)
    return np.maximum(np.abs(low), np.abs(high)), _both(first, second)


def _nonfinite(chunk: Chunk, rows: slice) -> tuple[Numbers, Measured]:
    total, there = column("nan")(chunk, rows)
    for name in ("posinf", "neginf"):
        more, also = column(name)(chunk, rows)
        total, there = total + more, _both(there, also)
    return total, there


def _noise(chunk: Chunk, rows: slice) -> tuple[Numbers, Measured]:
    """Returns the change of the norm from record to record: |a - b| / (a + b)."""
    norms = chunk.column("norm")
    before = chunk.before if rows.start == 0 else norms[rows.start - 1]
    if before is None:
        before = np.full(len(chunk.layout), np.nan, np.float64)
    norms = np.concatenate([before[None], norms[rows]])
    with np.errstate(all="ignore"):
        change = np.abs(np.diff(norms, axis=0)) / (norms[1:] + norms[:-1])
    change[(norms[1:] == 0) & (norms[:-1] == 0)] = 0
    # Neither what was not measured nor what is not finite has a change to show.
    return change, np.isfinite(change)


def _both(first: Measured, second: Measured) -> Measured:
    if first is None or second is None:
        return first if second is None else second
    return first & second


_GRADIENTS, _WEIGHTS = ("weight", "activation"), ("weight",)
_BEFORE = "of the unscaled gradient before clipping"


def _recorded(
    name: str, label: str, meaning: str, kinds: tuple[str, ...] = KINDS
) -> Quantity:
    return Quantity(name, label, "log", kinds, meaning, column(name))


def _percent(name: str, label: str, meaning: str) -> Quantity:
    return Quantity(name, label, "share", KINDS, meaning, column(name), percent=True)


_ALL = (
    _recorded("norm", "norm", f"The Euclidean norm {_BEFORE}."),
    Quantity(
        "update_ratio", "update ratio", "log", _WEIGHTS,
        "The norm of the update over the norm of the weight.", _update_ratio,
    ),
    _percent("zeros", "zero", "The share of exact zeros."),
    Quantity(
        "noise", "noise", "share", _GRADIENTS,
        "How much the norm changes from one record to the next: |a − b| / (a + b).",
        _noise,
    ),
    _recorded("mean_abs", "mean |g|", f"The mean absolute value {_BEFORE}."),
    Quantity(
        "largest", "largest |g|", "log", KINDS,
        f"The largest absolute value {_BEFORE}.", _largest,
    ),
    _recorded("std", "std", f"The standard deviation {_BEFORE}."),
    _recorded(
        "applied_norm", "norm after clipping",
        "The norm of what the optimizer's rule was given.", _WEIGHTS,
    ),
    _recorded(
        "update_norm", "update norm",
        "The norm of the weight after the step minus the weight before it.", _WEIGHTS,
    ),
    _recorded(
        "weight_norm", "weight norm",
        "The norm of the weight before the update.", _WEIGHTS,
    ),
    _percent(
        "underflow", "lost in float16",
        "The share of elements that are not zero but would be in float16.",
    ),
    Quantity(
        "nonfinite", "non-finite elements", "log", KINDS,
        "Number of elements that are NaN or infinite.", _nonfinite,
    ),
)  # fmt: skip

QUANTITIES = {quantity.name: quantity for quantity in _ALL}
"""All quantities, in the order in which they are offered."""
