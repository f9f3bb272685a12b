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
        meaning: One sentence.
        kinds: The kinds of rows that have it.
        scale: "log", or "share" for numbers from 0 to 1.
        percent: True if the number is a share that is shown in per cent.
        columns: The recorded columns that it is computed from (default: the column of
            its name).
        compute: Computes it from these columns (default: it is the only one).
        change: True for the change from one record to the next: |a − b| / (a + b).
    """

    name: str
    label: str
    meaning: str
    kinds: tuple[str, ...] = KINDS
    scale: Literal["log", "share"] = "log"
    percent: bool = False
    columns: tuple[str, ...] = ()
    compute: Callable[..., Numbers] | None = None
    change: bool = False

    @property
    def axis_label(self) -> str:
        """The label on an axis whose ticks say "%" themselves."""
        return f"share {self.label}" if self.percent else self.label

    def of(self, chunk: Chunk, rows: slice) -> tuple[Numbers, Measured]:
        """Returns the numbers of some steps, `[steps, rows]`, and where measured."""
        if self.change:
            return _change(chunk, rows)
        numbers = [chunk.column(name)[rows] for name in self.columns or [self.name]]
        # The maximum is NaN if any of them is: most often none is, and that is all.
        blank = [is_blank(n) for n in numbers if np.isnan(n.max(initial=0.0))]
        with np.errstate(all="ignore"):
            values = self.compute(*numbers) if self.compute else numbers[0]
        # Measured where all of its columns are.
        return values, ~np.logical_or.reduce(blank) if blank else None


def _change(chunk: Chunk, rows: slice) -> tuple[Numbers, Measured]:
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


_GRADIENTS, _WEIGHTS = ("weight", "activation"), ("weight",)
_BEFORE = "of the unscaled gradient before clipping"

_ALL = (
    Quantity("norm", "norm", f"The Euclidean norm {_BEFORE}."),
    Quantity(
        "update_ratio", "update ratio",
        "The norm of the update over the norm of the weight.", _WEIGHTS,
        columns=("update_norm", "weight_norm"), compute=np.divide,
    ),
    Quantity("zeros", "zero", "The share of exact zeros.", scale="share", percent=True),
    Quantity(
        "noise", "noise",
        "How much the norm changes from one record to the next: |a − b| / (a + b).",
        _GRADIENTS, "share", change=True,
    ),
    Quantity("mean_abs", "mean |g|", f"The mean absolute value {_BEFORE}."),
    Quantity(
        "largest", "largest |g|", f"The largest absolute value {_BEFORE}.",
        columns=("min", "max"), compute=lambda a, b: np.maximum(np.abs(a), np.abs(b)),
    ),
    Quantity("std", "std", f"The standard deviation {_BEFORE}."),
    Quantity(
        "applied_norm", "norm after clipping",
        "The norm of what the optimizer's rule was given.", _WEIGHTS,
    ),
    Quantity(
        "update_norm", "update norm",
        "The norm of the weight after the step minus the weight before it.", _WEIGHTS,
    ),
    Quantity(
        "weight_norm", "weight norm",
        "The norm of the weight before the update.", _WEIGHTS,
    ),
    Quantity(
        "underflow", "lost in float16",
        "The share of elements that are not zero but would be in float16.",
        scale="share", percent=True,
    ),
    Quantity(
        "nonfinite", "non-finite elements",
        "Number of elements that are NaN or infinite.",
        columns=("nan", "posinf", "neginf"), compute=lambda *counts: sum(counts),
    ),
)  # fmt: skip

QUANTITIES = {quantity.name: quantity for quantity in _ALL}
"""All quantities, in the order in which they are offered."""
