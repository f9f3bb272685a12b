"""The number on which a rule decided, and its limits: data, not prose."""

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
        """Returns plain values, as JSON has them."""
        return {**asdict(self), "value": json_number(self.value)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Measured:
        """Returns the measured quantity of which these are the values."""
        value = values.get("value")
        number = None if value is None else float(value)
        return cls(values["quantity"], number, values.get("low"), values.get("high"))


def json_number(number: Any) -> Any:
    """Returns a number as JSON has it: NaN and infinity become words."""
    if number is None or isinstance(number, str):
        return number
    value = float(number)
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
