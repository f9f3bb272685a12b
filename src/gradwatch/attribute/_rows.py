"""Number of examples, and of points of each, that go through the model at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ROWS, ROOM = 64, 2**20
"""Maximum number of rows, and of input values, in a pass by default."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """Part of a number of things, filled up so that each pass has the same shape."""

    index: np.ndarray
    real: int
    """Number of things in it; the others repeat the last one, and do not count."""


def in_parts(total: int, at_once: int) -> Iterator[RowRange]:
    """Splits `total` things into parts of equal size.

    Example:
    >>> [(part.index.tolist(), part.real) for part in in_parts(5, 3)]
    [([0, 1, 2], 3), ([3, 4, 4], 2)]
    """
    for start in range(0, total, at_once):
        index = np.minimum(np.arange(start, start + at_once), total - 1)
        yield RowRange(index, min(at_once, total - start))


def rows_for(tensors: Sequence[Any]) -> int:
    """Returns the number of examples of this size that keep a machine busy.

    Small batches of small things waste time between the passes; large batches of large
    things do not fit the caches, and take longer for each row.
    """
    numbers = sum(int(np.prod(t.shape[1:])) for t in tensors if t is not None)
    return int(np.clip(ROOM // max(numbers, 1), 1, ROWS))


def at_once(examples: int, points: int, rows: int) -> tuple[int, int]:
    """Returns the number of examples, and of points of each, that make one pass.

    Each pass has the same shape, so what does not fill a pass is computed for nothing:
    of the sizes that fit, the one with the least work wins.

    Example:
    >>> at_once(8, 50, 32), at_once(1, 50, 32), at_once(100, 50, 32)
    ((8, 3), (1, 25), (25, 1))
    """
    if examples > rows:
        passes = -(-examples // rows)
        return -(-examples // passes), 1
    most = min(max(rows // examples, 1), points)

    def work(count: int) -> tuple[int, int]:
        passes = -(-points // count)
        return passes * (count * examples + 1), -count

    return examples, min(range(1, most + 1), key=work)
