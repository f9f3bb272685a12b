"""Many small tensors as one matrix, so that a few operations measure them all.

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
        """How many zeros fill up the last line of each."""
        self.several = np.array(lines) > 1
        """Whether a vector has several lines."""
        self.owners = np.repeat(np.arange(len(lines), dtype=np.int32), lines)
        """The tensor that each line belongs to."""
        inside = np.ones((len(self.owners), WIDTH), bool)
        ends = np.cumsum(lines)
        for end, missing in zip(ends, self.missing, strict=True):
            if missing:
                inside[end - 1, WIDTH - missing :] = False
        self.inside = inside
        """Where the matrix holds numbers, and not what fills a line up."""
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
        return [total[:, place] for place in range(len(lines))]

    def largest(self, *lines: Tensor) -> list[Tensor]:
        """Returns the largest of what the lines of each tensor gave."""
        columns = ops.stack(lines, axis=1)
        top = ops.segment_max(columns, self.owners, len(self.lengths))
        return [top[:, place] for place in range(len(lines))]

    def spread(self, per_tensor: Tensor) -> Tensor:
        """Gives each line the number of its tensor, as a column."""
        return self.take(per_tensor, self.owners)[:, None]
