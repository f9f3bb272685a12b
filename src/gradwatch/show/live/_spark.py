"""Norms over the newest records become a line of small bars, on a log scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from ..charts import IS_NAN, IS_NEGINF, IS_POSINF, NUMBER, UNMEASURED, ZERO
from ..palette import ALARM, BLUE, ORANGE, PURPLE

BARS = "▁▂▃▄▅▆▇█"
_LEAST = 1.0  # decades from the lowest bar to the highest, so that noise looks small

# Filled cells, as in the heat map of the tab: visible on a light and on a dark screen.
# The letter says it without the colour.
MARKS = {
    IS_NAN: ("N", f"bold #FFFFFF on {ALARM}"),
    IS_POSINF: ("∞", f"bold #000000 on {ORANGE}"),
    IS_NEGINF: ("−", f"bold #000000 on {PURPLE}"),
    ZERO: ("_", BLUE),
    UNMEASURED: (" ", "none"),
}


def gathered(
    norms: NDArray[np.float64], states: NDArray[np.int_], cells: int, before: int
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """Returns records, `[records, rows]`, in at most that many cells.

    Each cell is the mean of log10 of what is finite, and the worst state. Cells hold
    1, 2, 4, … records, and begin at multiples of that, counted from the beginning of
    the run (`before` records are not given): what was drawn once does not change with
    every further record, it moves to the left.
    """
    count = len(norms)
    width, cells = 1, max(1, cells)
    while (before + count - 1) // width - before // width >= cells:
        width *= 2
    starts = np.flatnonzero(np.diff((before + np.arange(count)) // width, prepend=-1))
    finite = states == NUMBER
    logs = np.log10(np.where(finite, norms, 1.0))
    number = np.add.reduceat(finite.astype(int), starts, axis=0)
    levels = np.add.reduceat(logs, starts, axis=0) / np.maximum(number, 1)
    return levels, np.maximum.reduceat(states, starts, axis=0)


def spark(levels: Sequence[float], states: Sequence[int]) -> Text:
    """Returns one line of bars; what is not finite has a mark of its own.

    Example:
    >>> spark([-3.0, -2.0, -1.0, 0.0], [NUMBER, NUMBER, NUMBER, IS_NAN]).plain
    '▁▅█N'
    """
    finite = np.array(states) == NUMBER
    known = np.array(levels)[finite] if finite.any() else np.zeros(1)
    slack = max(0.0, _LEAST - np.ptp(known)) / 2
    low, high = known.min() - slack, known.max() + slack
    text = Text(no_wrap=True)
    for level, state in zip(levels, states, strict=True):
        if state == NUMBER:
            share = (level - low) / (high - low)
            text.append(BARS[min(len(BARS) - 1, round(share * (len(BARS) - 1)))], BLUE)
        else:
            text.append(*MARKS[state])
    return text
