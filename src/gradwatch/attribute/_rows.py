"""Number of examples, and of points of each, that go through the model at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


def in_parts(total: int, at_once: int) -> Iterator[tuple[np.ndarray, slice]]:
    """Splits `total` things into parts of equal size, so that passes have one shape.

    Yields:
        The numbers of a part, filled up with the last one; and the slice of those that
        count.

    Example:
    >>> [(numbers.tolist(), part) for numbers, part in in_parts(5, 3)]
    [([0, 1, 2], slice(0, 3, None)), ([3, 4, 4], slice(3, 5, None))]
    """
    for start in range(0, total, at_once):
        numbers = np.minimum(np.arange(start, start + at_once), total - 1)
        yield numbers, slice(start, min(start + at_once, total))


def rows_for(tensors: Sequence[Any]) -> int:
    """Returns how many examples of this size keep a machine busy: at most 64 rows.

    Small batches of small things waste time between the passes; large batches of large
    things (over 2**20 values) do not fit the caches, and take longer for each row.
    """
    numbers = sum(int(np.prod(t.shape[1:])) for t in tensors if t is not None)
    return int(np.clip(2**20 // max(numbers, 1), 1, 64))


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
        return -(-points // count) * (count * examples + 1), -count

    return examples, min(range(1, most + 1), key=work)
