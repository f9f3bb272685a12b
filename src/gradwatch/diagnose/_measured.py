"""The number on which a rule decided, and its limits: data, where evidence is prose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Measured:
    """The quantity that a rule measured, its value and its healthy range.

    Pictures and JSON are made from this. The texts of a finding are for people, and no
    code looks into them.

    Example:
    >>> Measured("update_ratio", 0.5, high=0.2).to_dict()
    {'quantity': 'update_ratio', 'value': 0.5, 'low': None, 'high': 0.2}

    Attributes:
        quantity: Its name, a stable identifier.
        value: Its value at the step at which the finding was confirmed; `None`: it was
            not measured, as of weights that broke between two records.
        low: The least value of a healthy training; `None`: there is no such limit.
        high: The largest value of a healthy training; `None`: there is no such limit.
    """

    quantity: str
    value: float | None
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values; JSON has no NaN and no infinity: they become words."""
        value = None if self.value is None else float(self.value)
        if value is not None and not math.isfinite(value):
            return {**asdict(self), "value": str(value)}
        return {**asdict(self), "value": value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Measured:
        """Returns the measured quantity of which these are the values."""
        low, high = (values.get(name) for name in ("low", "high"))
        value = values.get("value")
        number = None if value is None else float(value)
        return cls(str(values["quantity"]), number, low, high)
