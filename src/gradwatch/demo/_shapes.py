"""Pictures of shapes, drawn here: the demo needs no download."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SHAPES = ("circle", "square", "triangle", "cross")


def draw_shapes(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Returns noisy 28×28 pictures of shapes, and which shape each one is.

    Example:
    >>> pictures, labels = draw_shapes(3, seed=0)
    >>> pictures.shape, len(labels)
    ((3, 28, 28, 1), 3)
    """
    random = np.random.default_rng(seed)
    labels = random.integers(len(SHAPES), size=count)

    def each(low: float, high: float) -> Any:
        return random.uniform(low, high, size=(count, 1, 1))

    rows, columns = np.mgrid[:28, :28]
    across, down = columns - each(11, 16), rows - each(11, 16)
    radius, turn = each(6, 10), each(0, 2 * np.pi)
    u = across * np.cos(turn) + down * np.sin(turn)
    v = down * np.cos(turn) - across * np.sin(turn)
    # The distance of each pixel from the line that is drawn.
    sides = [u * np.cos(a) + v * np.sin(a) for a in np.arange(3) * 2 * np.pi / 3]
    distances = (
        np.abs(np.hypot(u, v) - radius),
        np.abs(np.maximum(np.abs(u), np.abs(v)) - 0.8 * radius),
        np.abs(np.max(sides, axis=0) - 0.5 * radius),
        np.minimum(
            np.maximum(np.abs(u), np.abs(v) - radius),
            np.maximum(np.abs(v), np.abs(u) - radius),
        ),
    )
    ink = np.clip(1.6 - np.choose(labels[:, None, None], distances), 0, 1)
    pictures = ink * each(0.6, 1.0) + random.normal(0, 0.12, size=ink.shape)
    return pictures[..., None].astype(np.float32), labels.astype(np.int32)
