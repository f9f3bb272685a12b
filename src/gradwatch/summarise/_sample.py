"""An even sample of a tensor, for what a picture or a share needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

Tensor = Any

WHOLE = 16_384
"""Up to this size, a tensor is measured whole."""
SAMPLE = 4_096
"""Of a larger tensor, about this many numbers give shares, `mean_abs`, histograms."""


def sample_of(
    tensor: Tensor,
    take: Callable[[Tensor, Any], Tensor],
    limit: int = SAMPLE,
) -> Tensor:
    """Returns at most about `limit` of the elements, evenly spread, as a vector.

    Whole lines of the last axis are taken, at an odd distance, so that no pattern of
    the shape is met again and again. Of a batch of unknown size, the first examples.
    """
    shape = tuple(tensor.shape)
    if None in shape:
        width = math.prod(n for n in shape[1:] if n is not None)
        flat = ops.reshape(tensor, (-1, max(width, 1)))
        flat = flat[:, :: _step(width, limit)]
        return ops.reshape(flat[: max(1, limit // max(flat.shape[1], 1))], (-1,))
    size, last = math.prod(shape), shape[-1] if shape else 1
    step = _step(size, limit)
    if step == 1:
        return ops.reshape(tensor, (-1,))
    if size // last >= 8 * step:
        # Taken, not sliced with steps, which is slow in TensorFlow.
        lines = np.arange(0, size // last, step, dtype=np.int32)
        chosen = take(ops.reshape(tensor, (-1, last)), lines)
        return ops.reshape(chosen, (-1,))
    places = np.arange(0, size, step, dtype=np.int32)
    return take(ops.reshape(tensor, (-1,)), places)


def sample_size(shape: tuple[int, ...]) -> int:
    """Returns how many elements `sample_of` takes of a tensor of this shape."""
    size, last = math.prod(shape), shape[-1] if shape else 1
    step = _step(size, SAMPLE)
    if step > 1 and size // last >= 8 * step:
        return math.ceil(size // last / step) * last
    return math.ceil(size / step)


def _step(size: int, limit: int) -> int:
    if limit == SAMPLE and size <= WHOLE:
        return 1
    step = -(-size // limit)
    return max(1, step if step <= 1 else step | 1)
