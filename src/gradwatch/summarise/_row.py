"""The row: everything that is said of one gradient, as plain numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ._columns import COLUMNS


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one gradient.

    `None` is "not measured" (there is no gradient, `missing` says why), `0.0` is
    "measured, zero" and NaN is "measured, but no element was finite". All of
    `norm`, `mean`, `std`, `min`, `max` and `mean_abs` are over the finite elements;
    NaN and infinite ones are counted apart, so they neither hide the others nor
    are hidden by them.

    Example:
    >>> row = Row.absent("head/bias", "weight", (4,), "float32", "the layer is frozen")
    >>> row.norm is None, row.size, row.missing
    (True, 4, 'the layer is frozen')

    Attributes:
        name: The address, such as `"conv1/kernel"`.
        kind: `"weight"`, `"activation"` or `"input"`.
        shape: The shape of the gradient.
        dtype: The name of its number type, such as `"float32"`.
        size: Number of elements.
        norm: The Euclidean norm.
        mean: The mean.
        std: The standard deviation (divided by the count, not the count less one).
        min: The smallest element.
        max: The largest element.
        mean_abs: The mean of the absolute values.
        zeros: The share of exact zeros among all elements, 0 to 1.
        underflow: The share of elements, of all, that are not zero but would be
            after rounding to float16.
        nan: Number of elements that are NaN.
        posinf: Number of elements that are plus infinity.
        neginf: Number of elements that are minus infinity.
        missing: Why there is no gradient; `None` when there is one.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    size: int
    norm: float | None
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    mean_abs: float | None
    zeros: float | None
    underflow: float | None
    nan: int | None
    posinf: int | None
    neginf: int | None
    missing: str | None = None

    @classmethod
    def absent(
        cls, name: str, kind: str, shape: Iterable[int], dtype: str, reason: str
    ) -> Row:
        """Returns the row of a gradient that does not exist: every number is `None`."""
        shape = tuple(int(length) for length in shape)
        measured = dict.fromkeys(COLUMNS[: COLUMNS.index("weight_norm")])
        return cls(
            name, kind, shape, dtype, math.prod(shape), **measured, missing=reason
        )

    @property
    def nonfinite(self) -> int | None:
        """Number of elements that are NaN or infinite; `None` when not measured."""
        if self.nan is None or self.posinf is None or self.neginf is None:
            return None
        return self.nan + self.posinf + self.neginf

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields by name, as values that `json.dumps` takes.

        A number that is NaN stays a float NaN, which `json` writes as `NaN`.

        Example:
        >>> Row.absent("a", "input", (2, 3), "float32", "not called").to_dict()["shape"]
        [2, 3]
        """
        return {**asdict(self), "shape": list(self.shape)}
