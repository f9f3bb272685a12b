"""All of this room that needs Keras, in one place to load it from."""

from ._exact import Reading, read
from ._finish import finish, norms
from ._sample import SAMPLE
from ._squares import Move, changes, read_move, squares
from ._step import SUMS, Group, histograms, measure

__all__ = [
    "SAMPLE",
    "SUMS",
    "Group",
    "Move",
    "Reading",
    "changes",
    "finish",
    "histograms",
    "measure",
    "norms",
    "read",
    "read_move",
    "squares",
]
