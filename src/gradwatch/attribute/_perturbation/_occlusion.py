"""Occlusion: attribution without a gradient."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._errors import require
from .._baselines import Baseline, baselines
from .._checked import per_axis
from .._method import method, result
from .._place import Place
from .._problem import Problem
from .._result import Attribution

Window = tuple[slice, ...]


@method
def occlusion(  # noqa: PLR0913 - the window, and what is put into it
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    window: int | Sequence[int] = 1,
    stride: int | Sequence[int] | None = None,
    baseline: Baseline = "zeros",
    batch_size: int | None = None,
) -> Attribution:
    """Fall of the target when a window of the input is covered.

    Zeiler and Fergus, *Visualizing and Understanding Convolutional Networks* (2014),
    section 4.2: F(x) − F(x with the window covered), for each position of the window;
    where windows overlap, the mean. All channels are covered together. One forward
    pass of the batch for each window.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> a = attribute.occlusion(model, np.ones((5, 3)), class_score(1))
    >>> kernel = keras.ops.convert_to_numpy(model.layers[0].kernel)
    >>> bool(np.allclose(a.values, kernel[:, 1], atol=1e-6))
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is covered; None: the inputs.
        window: The size of the window along each axis of space or time; features, where
            there are none.
        stride: The step between two positions. None: its own size.
        baseline: What covers it, as in `integrated_gradients`.
        batch_size: Maximum number of rows in a pass.

    Returns:
        The attribution: one number for each position.
    """
    stride = window if stride is None else stride
    problem = Problem(model, x, target, layer, batch_size=batch_size)
    starts = baselines(problem, baseline)
    score = problem.own_scores()
    values = []
    for number, place in enumerate(problem.free.places):
        windows = _windows(place, window, stride)
        scores = [_covered_scores(problem, b, number, windows) for b in starts]
        values.append(_spread(place, windows, score - np.mean(scores, axis=0)))
    settings = {"window": str(window), "stride": str(stride)}
    return result(problem, values, score, settings=settings)


def _windows(place: Place, window: Any, stride: Any) -> list[Window]:
    """Returns the positions of the window, the batch axis left out."""
    shape = place.values.shape
    axes = place.spatial or tuple(range(1, len(shape)))
    sizes = per_axis(window, len(axes), "window")
    strides = per_axis(stride, len(axes), "stride")
    lines: list[list[slice]] = [[slice(None)] for _ in shape[1:]]
    for axis, size, step in zip(axes, sizes, strides, strict=True):
        rule = f"`window` must fit into the input of shape {shape}, and `stride` must "
        rule += "not be larger than `window`, or something is never covered."
        require(step <= size <= shape[axis], rule, {"window": window, "stride": stride})
        # The last window may reach over the edge.
        count = -(-(shape[axis] - size) // step) + 1
        starts = [number * step for number in range(count)]
        lines[axis - 1] = [slice(at, min(at + size, shape[axis])) for at in starts]
    return list(itertools.product(*lines))


def _covered_scores(
    problem: Problem, start: list[np.ndarray], number: int, windows: list[Window]
) -> np.ndarray:
    """Returns the target with each window covered: [windows, examples]."""

    def point(index: int, rows: np.ndarray) -> list[np.ndarray]:
        arrays = [values[rows] for values in problem.free.values]
        window = (slice(None), *windows[index])
        arrays[number][window] = start[number][rows][window]
        return arrays

    return problem.scores_at(len(windows), point)


def _spread(place: Place, windows: list[Window], fall: np.ndarray) -> np.ndarray:
    """Returns the mean fall over the windows that cover each position."""
    shape, axis = place.values.shape, place.channels
    total, times = np.zeros(shape), np.zeros(shape[1:])
    for window, numbers in zip(windows, fall, strict=True):
        total[(slice(None), *window)] += numbers.reshape(-1, *[1] * (len(shape) - 1))
        times[window] += 1
    mean = (total / times).astype("float32")
    return mean if axis is None else np.asarray(np.take(mean, 0, axis=axis))
