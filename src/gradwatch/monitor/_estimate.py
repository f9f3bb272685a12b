"""What the sums of a recorded step take, where nobody could time a step without them.

Every step of a short training may be recorded: then there is no other to compare with,
and to compile the sums by themselves would take longer than the training did. What they
read is known to the number, and how fast this machine reads is found out in a moment.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..backends import Parts
from ..summarise import SUMS

_SWEEPS = {"sums": 7, "values": 4, "gradients": 4}
"""How often each is read: a gradient and an activation four times (smallest, largest,
sum, squares), and the weight of a gradient three times, before and after the update."""
_FEW, _MANY = 2**12, 2**20
_TURNS = 3


class Swept(NamedTuple):
    """What one recorded step reads."""

    sweeps: int
    """How many times a tensor is read from end to end."""
    numbers: float
    """How many numbers that are, over all sweeps."""


def swept(sent: Mapping[str, Parts]) -> Swept:
    """Returns what was read for what a step sent."""
    sweeps, numbers, size = 0, 0.0, SUMS.index("size")
    for parts in sent.values():
        for name, times in _SWEEPS.items():
            if name in parts:
                sizes = np.asarray(parts[name])[:, size]
                sweeps += times * len(sizes)
                numbers += times * float(sizes.sum())
    return Swept(sweeps, numbers)


def estimate(what: Swept) -> float:
    """Returns about how many seconds that takes here: some milliseconds find it out."""
    few, many = _sweep(_FEW), _sweep(_MANY)
    each = max(0.0, (many - few) / (_MANY - _FEW))
    return what.sweeps * few + what.numbers * each


def _sweep(size: int) -> float:
    """Returns the seconds of one sweep: the mean of four kinds, the best of some."""
    numbers = np.ones(size, np.float32)
    times = []
    for _ in range(_TURNS):
        began = time.perf_counter()
        numbers.min(), numbers.max(), numbers.sum(), np.dot(numbers, numbers)
        times.append(time.perf_counter() - began)
    return min(times) / 4
