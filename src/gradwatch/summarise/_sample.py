"""An even sample of a tensor, for what a picture or a share needs."""

from __future__ import annotations

import math
from typing import Any

from keras import ops

Tensor = Any

SAMPLE = 16_384
"""Of a larger tensor, about this many numbers give shares, `mean_abs`, histograms."""


def sample_of(tensor: Tensor) -> Tensor:
    """Returns at most about `SAMPLE` of the elements, evenly spread, as a vector.

    Whole lines of the last axis are taken, at an odd distance, so that no pattern of
    the shape is met again and again. Of a batch of unknown size, the first examples.
    """
    shape = tuple(tensor.shape)
    if None in shape:
        width = math.prod(n for n in shape[1:] if n is not None)
        flat = ops.reshape(tensor, (-1, max(width, 1)))
        flat = flat[:, :: _step(width)]
        return ops.reshape(flat[: max(1, SAMPLE // max(flat.shape[1], 1))], (-1,))
    size, last = math.prod(shape), shape[-1] if shape else 1
    step = _step(size)
    if step == 1:
        return ops.reshape(tensor, (-1,))
    if size // last >= 8 * step:
        return ops.reshape(ops.reshape(tensor, (-1, last))[::step], (-1,))
    return ops.reshape(tensor, (-1,))[::step]


def sample_size(shape: tuple[int, ...]) -> int:
    """Returns how many elements `sample_of` takes of a tensor of this shape."""
    size, last = math.prod(shape), shape[-1] if shape else 1
    step = _step(size)
    if step > 1 and size // last >= 8 * step:
        return math.ceil(size // last / step) * last
    return math.ceil(size / step)


def _step(size: int) -> int:
    step = -(-size // SAMPLE)
    return max(1, step if step <= 1 else step | 1)
