"""Counts of histograms in few bytes, in as little time as NumPy allows.

Most buckets are empty, and most of the others hold less than 256. So four strings say
it all: a bit for each bucket that is in use, the lowest byte of each of these, a bit
for each of these that needs more, and the rest of those. Deflating the whole matrix
saves another tenth of the room, and takes eight times as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..summarise import BUCKETS


def pack(counts: NDArray[np.integer]) -> list[bytes]:
    """Returns the counts as four strings.

    Example:
    >>> import numpy as np
    >>> counts = np.zeros((2, 128), int)
    >>> counts[1, 70] = 300
    >>> unpack(pack(counts), 2).tolist() == counts.tolist()
    True

    Args:
        counts: Of shape `[lines, BUCKETS]`.
    """
    flat = np.asarray(counts).ravel()
    used = flat != 0
    # Indices first: taking by a mask is three times as slow where every other is taken.
    known = flat[np.flatnonzero(used)]
    large = known > 0xFF
    rest = known[np.flatnonzero(large)] >> 8
    return [
        np.packbits(used).tobytes(),
        known.astype(np.uint8).tobytes(),  # modulo 256
        np.packbits(large).tobytes(),
        rest.astype(_narrowest(rest)).tobytes(),
    ]


def unpack(packed: list[bytes], lines: int) -> NDArray[np.int64]:
    """Returns the counts, `[lines, BUCKETS]`: the inverse of `pack`."""
    used, low, large, rest = (np.frombuffer(part, np.uint8) for part in packed)
    known = low.astype(np.int64)
    more = np.flatnonzero(np.unpackbits(large, count=len(known)))
    if len(more):
        width = len(rest) // len(more)
        known[more] |= rest.view(f"<u{width}").astype(np.int64) << 8
    counts = np.zeros(lines * BUCKETS, np.int64)
    counts[np.flatnonzero(np.unpackbits(used, count=counts.size))] = known
    return counts.reshape(lines, BUCKETS)


def _narrowest(numbers: NDArray[np.integer]) -> str:
    largest = int(numbers.max(initial=0))
    return next(f"<u{width}" for width in (1, 2, 4, 8) if largest < 1 << 8 * width)
