"""Counts the rows of embeddings that have moved in the course of a training."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine import array_of
from ..select import Tree

_LARGEST = 50_000_000
"""Maximum size of a table; a larger one would take seconds and is left out."""


class EmbeddingRows:
    """Remembers a sum of each row, and counts the rows whose sum has changed.

    Args:
        tree: The tree of the model.
        step: The first step of the training.
    """

    def __init__(self, tree: Tree, step: int) -> None:
        self._step = step
        self._tables = {
            address: node.variable
            for address, node in tree.weights.items()
            if address.rpartition("/")[2].startswith("embeddings")
            and node.trainable
            and int(np.prod(node.variable.shape)) <= _LARGEST
        }
        self._before = {name: _sums(table) for name, table in self._tables.items()}

    def moved(self) -> dict[str, dict[str, int]]:
        """Returns for each table how many rows it has, and how many have moved."""
        return {
            name: {
                "rows": len(before),
                "moved": int(np.sum(_sums(self._tables[name]) != before)),
                "since": self._step,
            }
            for name, before in self._before.items()
        }


def _sums(variable: Any) -> np.ndarray:
    table = array_of(variable)
    # Each column has a factor of its own: two numbers of a row that change by as much
    # in opposite directions do not leave its sum as it was.
    factors = np.sqrt(2.0 + np.arange(table.shape[-1]))
    sums: np.ndarray = table.astype(np.float64) @ factors
    return sums
