"""The names of this room that need Keras, to load them together."""

from ._exact import Reading, read
from ._finish import finish, norms
from ._measure import SUMS, measure
from ._pack import SAMPLE
from ._squares import Move, changes, read_move, squares

__all__ = [
    "SAMPLE",
    "SUMS",
    "Move",
    "Reading",
    "changes",
    "finish",
    "measure",
    "norms",
    "read",
    "read_move",
    "squares",
]
