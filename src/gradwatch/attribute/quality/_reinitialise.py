"""Random weights for a while: drawn anew, and put back whatever happens."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from ...select import Tree, WeightNode


@contextlib.contextmanager
def put_back(nodes: Sequence[WeightNode]) -> Iterator[Callable[[], None]]:
    """Restores the values of some weights to the bit, also when called in between."""
    variables = [node.variable for node in nodes]
    kept = [_copy(variable) for variable in variables]
    restore = functools.partial(_assign_all, variables, kept)
    try:
        yield restore
    finally:
        restore()


def _assign_all(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    """Assigns all of them; an interruption is raised when that is done."""
    interrupted: KeyboardInterrupt | None = None
    left = list(zip(variables, values, strict=True))
    while left:
        try:
            left[-1][0].assign(left[-1][1])
            left.pop()
        except KeyboardInterrupt as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def _copy(variable: Any) -> np.ndarray:
    # A copy: what the frameworks give may be the memory of the variable itself.
    return np.array(keras.ops.convert_to_numpy(variable.value))


def randomise(tree: Tree, nodes: Sequence[WeightNode], seed: int) -> None:
    """Draws weights anew, as their layer would; else like themselves.

    Args:
        tree: Of the model.
        nodes: The weights of one layer.
        seed: Of the draw.
    """
    for number, node in enumerate(nodes):
        layer = tree.layers[node.layer].layer if node.layer else tree.model
        fresh = _initialised(layer, node.variable, 1000 * seed + number)
        if fresh is None:
            random = np.random.default_rng([seed, number])
            now = _copy(node.variable)
            fresh = random.normal(now.mean(), now.std(), now.shape).astype(now.dtype)
        node.variable.assign(fresh)


def _initialised(layer: Any, variable: Any, seed: int) -> Any:
    """Returns what the layer's own initialiser gives, or None if it has none."""
    names = variable.name, variable.name.removesuffix("_kernel")
    own = [getattr(layer, f"{name}_initializer", None) for name in names]
    known = [i for i in own if isinstance(i, keras.initializers.Initializer)]
    if not known:
        return None
    initializer = known[0]
    config = initializer.get_config()
    if "seed" in config:
        # Of its own: the layer's would give the weights it began with, and draw from a
        # stream of the user's.
        initializer = type(initializer).from_config({**config, "seed": seed})
    return initializer(tuple(variable.shape), dtype=variable.dtype)
