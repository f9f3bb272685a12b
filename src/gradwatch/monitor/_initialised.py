"""Tells whether a weight is still as its initialiser made it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

_FEWEST = 32
_LOOKED_AT = 65_536
_DEVIATIONS = 6.0
_EXACT = 1e-4
_TRUNCATED = 0.87962566103423978
"""The deviation of a normal distribution that is cut off at two deviations."""

_init = keras.initializers


def as_initialised(array: np.ndarray, initialiser: Any) -> bool | None:
    """Tells whether numbers look as the initialiser makes them; None if it cannot.

    A training leaves the bounds of a uniform distribution, and the spread of any.

    Example:
    >>> import keras, numpy as np
    >>> first = keras.initializers.GlorotUniform(seed=0)
    >>> array = np.asarray(keras.ops.convert_to_numpy(first((40, 50))))
    >>> as_initialised(array, first), as_initialised(1.1 * array, first)
    (True, False)
    """
    if array.size < _FEWEST:
        return None
    if isinstance(initialiser, _init.Orthogonal):
        return _as_orthogonal(array, float(initialiser.gain))
    expected = list(_expected(initialiser, array.shape))
    if not expected:
        return None
    step = -(-array.size // _LOOKED_AT)
    numbers = array.reshape(-1)[::step].astype(np.float64)
    return any(_fits(numbers, *one) for one in expected)


def left_constant(array: np.ndarray, initialiser: Any) -> bool:
    """Tells whether numbers that began at zero, or another constant, have moved.

    Example:
    >>> import keras, numpy as np
    >>> zeros = keras.initializers.Zeros()
    >>> left_constant(np.zeros(3), zeros), left_constant(np.array([0.0, 1e-4]), zeros)
    (False, True)
    """
    match initialiser:
        case _init.Zeros():
            start = 0.0
        case _init.Ones():
            start = 1.0
        case _init.Constant() if np.ndim(initialiser.value) == 0:
            start = float(initialiser.value)
        case _:
            return False
    return bool(np.any(array != np.asarray(start, array.dtype)))


def _fits(numbers: np.ndarray, deviation: float, bound: float) -> bool:
    if deviation == 0 or float(np.abs(numbers).max()) > bound * (1 + _EXACT):
        return False
    scatter = _DEVIATIONS / math.sqrt(numbers.size)
    spread = float(np.sqrt(np.mean(numbers**2))) / deviation
    centred = abs(float(numbers.mean())) < scatter * deviation
    return bool(abs(spread - 1) < scatter and centred)


def _as_orthogonal(array: np.ndarray, gain: float) -> bool:
    rows, columns = math.prod(array.shape[:-1]), array.shape[-1]
    square = float(np.sum(array.astype(np.float64) ** 2))
    return bool(abs(square / (gain**2 * min(rows, columns)) - 1) < _EXACT)


def _expected(
    initialiser: Any, shape: tuple[int, ...]
) -> Iterator[tuple[float, float]]:
    """The standard deviation and the bound of what an initialiser may have made."""
    match initialiser:
        case _init.VarianceScaling():
            yield from (_scaled(initialiser, *fans) for fans in _fans(shape))
        case _init.TruncatedNormal():
            deviation = float(initialiser.stddev)
            yield deviation * _TRUNCATED, 2 * deviation
        case _init.RandomNormal() if not initialiser.mean:
            yield float(initialiser.stddev), math.inf
        case _init.RandomUniform() if initialiser.minval == -initialiser.maxval:
            bound = float(initialiser.maxval)
            yield bound / math.sqrt(3), bound


def _fans(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yields the numbers of inputs and outputs that a unit may have.

    Of three and more axes the last two count, times the field of a convolution; or the
    axes of an `EinsumDense` are inputs up to one of them, and outputs from there.
    """
    field = math.prod(shape[:-2]) if len(shape) > 2 else 1
    inputs = shape[-2] if len(shape) > 1 else shape[-1]
    yield field * inputs, field * shape[-1]
    for place in range(1, len(shape)) if len(shape) > 2 else ():
        yield math.prod(shape[:place]), math.prod(shape[place:])


def _scaled(initialiser: Any, inputs: int, outputs: int) -> tuple[float, float]:
    fans = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}
    variance = float(initialiser.scale) / max(1.0, fans[initialiser.mode])
    deviation = math.sqrt(variance)
    if initialiser.distribution == "uniform":
        return deviation, math.sqrt(3) * deviation
    if initialiser.distribution == "truncated_normal":
        return deviation, 2 * deviation / _TRUNCATED
    return deviation, math.inf
