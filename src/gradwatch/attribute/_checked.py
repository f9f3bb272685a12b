"""Checks of arguments that several methods have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._errors import GradwatchError, arg, listing


def require(fits: bool, rule: str, received: Any) -> None:
    """Raises an error with the rule and the value received, unless it fits."""
    if not fits:
        raise GradwatchError(f"{rule} Received: {received!r}.")


def require_one_of(option: Any, argument: str, options: tuple[str, ...]) -> None:
    """Raises unless it is one of the options."""
    require(option in options, f"{arg(argument)} must be one of {options}.", option)


def require_positive(number: Any, argument: str) -> None:
    """Raises unless it is a finite number above 0."""
    real = isinstance(number, int | float | np.number) and not isinstance(number, bool)
    fits = real and number > 0 and math.isfinite(number)
    require(fits, f"{arg(argument)} must be a number above 0.", number)


def is_count(number: Any, least: int = 1) -> bool:
    """Returns whether it is a whole number from `least`."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return whole and number >= least


def require_count(number: Any, argument: str, least: int = 1) -> None:
    """Raises unless it is a whole number from `least`."""
    rule = f"{arg(argument)} must be a whole number from {least}."
    require(is_count(number, least), rule, number)


def checked_batch_size(batch_size: Any) -> int | None:
    """Returns the number of rows; raises if it is none."""
    rule = "`batch_size` must be a whole number of rows from 1, or None."
    require(batch_size is None or is_count(batch_size), rule, batch_size)
    return None if batch_size is None else int(batch_size)


def require_seed(seed: Any) -> None:
    """Raises unless it can seed random numbers; None is allowed."""
    if seed is not None:
        require_count(seed, "seed", least=0)


def require_layer(layer: Any) -> None:
    """Raises if `layer` is None."""
    if layer is None:
        raise GradwatchError(
            f"{arg('layer')} must name the layer that is attributed to. Received: "
            f"None. {listing()} lists them all."
        )
