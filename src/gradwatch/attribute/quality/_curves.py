"""Deletion and insertion: the input, taken apart and built up in the order of worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._baselines import Baseline, baselines
from .._checked import check
from .._result import Attribution
from ._curve import Curve
from ._orders import ground, is_map, masks_of, ranks
from ._question import finite_scores, problem_of, question_of


def deletion(  # noqa: PLR0913 - what is removed, how finely, against what
    a: Attribution,
    model: Any,
    x: Any = None,
    *,
    baseline: Baseline = "zeros",
    steps: int = 20,
    orders: int = 5,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Curve:
    """Curve of the target while what matters most is removed first.

    Petsiuk, Das and Saenko, *RISE* (2018), "Evaluation metrics": positions
    are replaced by a baseline in the order of their values, and the area under the
    curve of the target is small if the values were right. Pixels, tokens and time steps
    with all their channels, features of a table one by one; a map over a layer is laid
    over the image first. A curve alone says little, so the same is done in random
    orders. About `steps · (orders + 1)` forward passes of the batch.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    >>> x = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
    >>> a = gw.input_x_gradient(model, x, gw.class_score(1))
    >>> curve = gw.attribute.quality.deletion(a, model)
    >>> curve.share.tolist(), bool((curve.area <= curve.random_area + 1e-6).all())
    ([0.0, 0.25, 0.5, 0.75, 1.0], True)

    Args:
        a: The attribution.
        model: The model it explains.
        x: Another batch, which is explained first. None: that of `a`.
        baseline: What is put in their place, as in `integrated_gradients`.
        steps: Number of equal steps.
        orders: Number of random orders to compare with.
        seed: Of the random orders, which are the same on every backend.
        batch_size: Maximum number of rows in a pass.
        progress: As in `sensitivity_max`.

    Returns:
        The curves and their areas.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    draws = steps, orders, seed
    return _curve("deletion", (a, model, x), baseline, draws, batch_size, progress)


def insertion(  # noqa: PLR0913 - what is put in, how finely, against what
    a: Attribution,
    model: Any,
    x: Any = None,
    *,
    baseline: Baseline = None,
    steps: int = 20,
    orders: int = 5,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Curve:
    """Curve of the target while what matters most is put in first.

    As `deletion` (Petsiuk, Das and Saenko, *RISE*, 2018), but from the
    baseline to the input: the area is large if the values were right.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    >>> x = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
    >>> a = gw.input_x_gradient(model, x, gw.class_score(1))
    >>> curve = gw.attribute.quality.insertion(a, model)
    >>> bool((curve.area >= curve.random_area - 1e-6).all())
    True

    Args:
        a: The attribution.
        model: The model it explains.
        x: Another batch, which is explained first. None: that of `a`.
        baseline: Where it begins, as in `integrated_gradients`. None: images blurred,
            as in the paper, all else zeros.
        steps: Number of equal steps.
        orders: Number of random orders to compare with.
        seed: Of the random orders.
        batch_size: Maximum number of rows in a pass.
        progress: As in `sensitivity_max`.

    Returns:
        The curves and their areas.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    draws = steps, orders, seed
    return _curve("insertion", (a, model, x), baseline, draws, batch_size, progress)


def _curve(
    kind: str, asked: Any, baseline: Baseline, draws: tuple[int, int, int], *run: Any
) -> Curve:
    """Returns the curve: insertion changes what deletion leaves."""
    (steps, others, seed), (batch_size, progress) = draws, run
    check(steps=steps, orders=others, seed=seed)
    a, _, x = question_of(*asked)
    problem = problem_of(a, asked[1], x, at_inputs=is_map(a), batch_size=batch_size)
    inputs = problem.free.places
    if baseline is None:  # Insertion begins with a blur, if all inputs are images.
        spatial = {len(place.spatial) for place in inputs}
        baseline = "blur" if problem.layer is None and spatial == {2} else "zeros"
    starts = baselines(problem, baseline)
    changed, importance = ground(a, problem)
    positions = importance.shape[1]
    random = np.random.default_rng(seed)
    nothing = np.zeros_like(importance)
    # int32: the ranks of many orders of large images are most of what is held.
    orders = [ranks(importance, random)]
    orders += [ranks(nothing, random) for _ in range(others)]
    steps = min(steps, positions)
    counts = np.round(np.linspace(0, positions, steps + 1)).astype(int)
    # Both ends are the same in every order: computed once.
    asks = [(0, 0), (0, steps)]
    asks += [(order, k) for order in range(len(orders)) for k in range(1, steps)]

    def point(number: int, rows: np.ndarray) -> list[np.ndarray]:
        start, (order, step) = starts[number // len(asks)], asks[number % len(asks)]
        # What is not yet inserted is covered, and what is already deleted.
        covered = (orders[order][rows] < counts[step]) == (kind == "deletion")
        masks = masks_of(inputs, changed, covered)
        tensors = zip(masks, problem.free.values, start, strict=True)
        return [np.where(mask, new[rows], own[rows]) for mask, own, new in tensors]

    scores = finite_scores(problem, len(asks) * len(starts), point, kind, progress)
    scores = scores.reshape(len(starts), len(asks), -1).mean(axis=0)
    curves = np.zeros((len(orders), problem.size, steps + 1))
    curves[:, :, 0], curves[:, :, -1] = scores[0], scores[1]
    curves[:, :, 1:-1] = scores[2:].reshape(len(orders), steps - 1, -1).swapaxes(1, 2)
    return Curve(kind, a.method, a.target, counts / positions, curves[0], curves[1:])
