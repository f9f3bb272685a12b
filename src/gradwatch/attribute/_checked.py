"""Numbers of things, sizes, layers: what may be given for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._errors import GradwatchError


def require_positive(number: Any, argument: str) -> None:
    """Raises unless it is a finite number above 0."""
    real = isinstance(number, int | float | np.number) and not isinstance(number, bool)
    if not real or not number > 0 or not math.isfinite(number):
        raise GradwatchError(
            f"`{argument}` must be a number above 0. Received: {number!r}."
        )


def require_count(number: Any, argument: str, least: int = 1) -> None:
    """Raises unless it is a whole number from `least`."""
    whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not whole or number < least:
        raise GradwatchError(
            f"`{argument}` must be a whole number from {least}. Received: {number!r}."
        )


def require_seed(seed: Any) -> None:
    """Raises unless random numbers can begin with it; None: anywhere."""
    if seed is not None:
        require_count(seed, "seed", least=0)


def require_layer(layer: Any) -> None:
    """Raises when a method of layers was not told which.

    Raises:
        GradwatchError: When `layer` is None.
    """
    if layer is None:
        raise GradwatchError(
            "`layer` must name the layer that is attributed to. Received: None. "
            "`gradwatch.layers(model)` lists them all."
        )
