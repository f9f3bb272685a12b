"""Checks of arguments that several methods have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._errors import arg, counted, require


def require_one_of(option: Any, argument: str, options: tuple[Any, ...]) -> None:
    """Raises unless it is one of the options."""
    require(option in options, f"{arg(argument)} must be one of {options}.", option)


def is_positive(number: Any) -> bool:
    """Returns whether it is a finite number above 0."""
    real = isinstance(number, int | float | np.number) and not isinstance(number, bool)
    return real and bool(number > 0) and math.isfinite(number)


def is_count(number: Any, least: int = 1) -> bool:
    """Returns whether it is a whole number from `least`."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return whole and bool(number >= least)


def per_axis(given: Any, axes: int, argument: str) -> tuple[int, ...]:
    """Returns a number for each axis, of one for all or of as many as there are."""
    numbers = tuple(given) if np.ndim(given) else (given,) * axes
    rule = f"`{argument}` must be a whole number from 1, or one for each of the "
    rule += f"{counted(axes, 'axis')} of space."
    require(len(numbers) == axes and all(map(is_count, numbers)), rule, given)
    return tuple(map(int, numbers))


def _is_count_or_none(number: Any) -> bool:
    return number is None or is_count(number)


_POSITIVE = ("epsilon", "noise", "radius", "sigma", "size", "step", "tolerance")
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("count", "samples", "steps"), (is_count, "a whole number from 1")),
    **dict.fromkeys(_POSITIVE, (is_positive, "a number above 0")),
    "batch_size": (_is_count_or_none, "a whole number of rows from 1, or None"),
    "num_batches": (_is_count_or_none, "a whole number from 1"),
    "orders": (lambda number: is_count(number, 0), "a whole number from 0"),
    "seed": (lambda s: s is None or is_count(s, 0), "a whole number from 0"),
}
"""Rule of each argument, whichever function takes it."""


def check(**arguments: Any) -> None:
    """Raises unless each argument is what its name asks for."""
    for name, value in arguments.items():
        fits, rule = _RULES[name]
        require(fits(value), f"{arg(name)} must be {rule}.", value)
