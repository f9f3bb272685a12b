"""Many small tensors as one matrix, and an even sample of each large one.

A model has hundreds of small weights. Measured one by one they would cost thousands of
operations, each of which is traced, compiled and scheduled. Laid end to end, each
padded to whole lines of `WIDTH`, they are one matrix: its lines are reduced at once,
and what the lines of one tensor give is added up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops

Tensor = Any
WIDTH = 64
WHOLE = 16_384
"""Maximum size of a tensor that is measured whole."""
SAMPLE = 4_096
"""Number of elements of a larger one that give shares, `mean_abs` and histograms."""


class Pack:
    """Vectors of known length as lines of one matrix.

    Args:
        lengths: Of the vectors.
        take: Takes lines out of a tensor.
    """

    def __init__(
        self, lengths: Sequence[int], take: Callable[[Tensor, Any], Tensor]
    ) -> None:
        self.take = take
        self.lengths = np.array(lengths, np.int64)
        lines = [max(1, math.ceil(length / WIDTH)) for length in lengths]
        self.missing = np.array(lines) * WIDTH - self.lengths
        """Number of zeros that fill up the last line of each."""
        self.several = np.array(lines) > 1
        """True for vectors of several lines."""
        self.owners = np.repeat(np.arange(len(lines), dtype=np.int32), lines)
        """The tensor that each line belongs to."""
        inside = np.ones((len(self.owners), WIDTH), bool)
        ends = np.cumsum(lines)
        for end, missing in zip(ends, self.missing, strict=True):
            if missing:
                inside[end - 1, WIDTH - missing :] = False
        self.inside = inside
        """True where the matrix holds numbers, and not what fills a line up."""
        edges = ~inside.all(axis=1) | ~self.several[self.owners]
        self.edges = np.flatnonzero(edges).astype(np.int32)
        """The lines that are filled up, or are a whole vector."""

    def matrix(self, vectors: Sequence[Tensor]) -> Tensor:
        """Returns the vectors as float32 lines; the last line of each ends in zeros."""
        parts: list[Any] = []
        for vector, missing in zip(vectors, self.missing, strict=True):
            parts.append(ops.cast(vector, "float32"))
            if missing:
                parts.append(ops.zeros((int(missing),), "float32"))
        flat = ops.concatenate(parts) if len(parts) > 1 else parts[0]
        return ops.reshape(flat, (len(self.owners), WIDTH))

    def sums(self, *lines: Tensor) -> list[Tensor]:
        """Adds up what the lines of each tensor gave."""
        columns = ops.stack([ops.cast(line, "float32") for line in lines], axis=1)
        total = ops.segment_sum(columns, self.owners, len(self.lengths))
        return [total[:, i] for i in range(len(lines))]

    def largest(self, *lines: Tensor) -> list[Tensor]:
        """Returns the largest of what the lines of each tensor gave."""
        columns = ops.stack(lines, axis=1)
        top = ops.segment_max(columns, self.owners, len(self.lengths))
        return [top[:, i] for i in range(len(lines))]

    def spread(self, per_tensor: Tensor) -> Tensor:
        """Gives each line the number of its tensor, as a column."""
        return self.take(per_tensor, self.owners)[:, None]


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
    indices = np.arange(0, size, step, dtype=np.int32)
    return take(ops.reshape(tensor, (-1,)), indices)


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
