"""Deletion and insertion: the input, taken apart and built up in the order of worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._axes import channel_axis
from .._baselines import Baseline, baselines
from .._checked import require_count, require_seed
from .._problem import Problem
from .._progress import progress_bar
from .._result import Attribution
from ._asked import asked, scores_at
from ._curve import Curve
from ._orders import ground, is_map, ranks


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
    """How the target falls while what matters most is removed first.

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
        steps: In how many equal steps.
        orders: How many random orders to compare with.
        seed: Of the random orders, which are the same on every backend.
        batch_size: The most rows that go through the model at a time.
        progress: As in `sensitivity_max`.

    Returns:
        The curves and their areas.

    Raises:
        GradwatchError: When an argument cannot be used; the message says why.
    """
    measured = _Measured("deletion", steps, orders, seed, progress)
    return measured(a, model, x, baseline, batch_size)


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
    """How the target rises while what matters most is put in first.

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
        steps: In how many equal steps.
        orders: How many random orders to compare with.
        seed: Of the random orders.
        batch_size: The most rows that go through the model at a time.
        progress: As in `sensitivity_max`.

    Returns:
        The curves and their areas.

    Raises:
        GradwatchError: When an argument cannot be used; the message says why.
    """
    measured = _Measured("insertion", steps, orders, seed, progress)
    return measured(a, model, x, baseline, batch_size)


class _Measured:
    """What deletion and insertion share: one changes what the other leaves."""

    def __init__(
        self, what: str, steps: int, orders: int, seed: int, progress: bool | None
    ) -> None:
        require_count(steps, "steps")
        require_count(orders, "orders", least=0)
        require_seed(seed)
        self.what = what
        self.steps = steps
        self.orders = orders
        self.seed = seed
        self.progress = progress

    def __call__(
        self, a: Attribution, model: Any, x: Any, baseline: Baseline, batch_size: Any
    ) -> Curve:
        question = asked(a, model, x)
        problem = question.problem(batch_size, at_inputs=is_map(question.a))
        if baseline is None:
            baseline = _canvas(problem)
        starts = baselines(problem, baseline)
        positions, importance = ground(question.a, problem)
        random = np.random.default_rng(self.seed)
        nothing = np.zeros_like(importance)
        # int32: the ranks of many orders of large images are most of what is held.
        lines = [ranks(importance, random)]
        lines += [ranks(nothing, random) for _ in range(self.orders)]
        steps = min(self.steps, positions.count)
        counts = np.round(np.linspace(0, positions.count, steps + 1)).astype(int)
        # Both ends are the same in every order: asked for once.
        asks = [(0, 0), (0, steps)]
        asks += [(line, k) for line in range(len(lines)) for k in range(1, steps)]

        def point(number: int, rows: np.ndarray) -> list[np.ndarray]:
            start, (line, step) = starts[number // len(asks)], asks[number % len(asks)]
            first = positions.masks(lines[line][rows] < counts[step])
            return [
                own[rows] if mask is None else self._mixed(mask, own[rows], b[rows])
                for mask, own, b in zip(first, problem.free.values, start, strict=True)
            ]

        total = len(asks) * len(starts)
        with progress_bar(self.what, total, self.progress) as tick:
            found = scores_at(problem, total, point, tick)
        found = found.reshape(len(starts), len(asks), -1).mean(axis=0)
        curves = np.zeros((len(lines), problem.size, steps + 1))
        curves[:, :, 0], curves[:, :, -1] = found[0], found[1]
        for (line, k), scores in zip(asks[2:], found[2:], strict=True):
            curves[line, :, k] = scores
        share = counts / positions.count
        words = (self.what, question.a.method, question.a.target)
        return Curve(*words, share, curves[0], curves[1:])

    def _mixed(
        self, first: np.ndarray, own: np.ndarray, start: np.ndarray
    ) -> np.ndarray:
        before, after = (own, start) if self.what == "deletion" else (start, own)
        return np.where(first, after, before)


def _canvas(problem: Problem) -> str:
    """Returns what an insertion begins with: a blur, if all there is are images."""
    spatial = set()
    for values in problem.free.values:
        axis = channel_axis(problem.tree, None, values.ndim)
        spatial.add(values.ndim - (1 if axis is None else 2))
    return "blur" if problem.at_inputs and spatial == {2} else "zeros"
