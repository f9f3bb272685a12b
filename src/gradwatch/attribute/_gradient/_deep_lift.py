"""DeepLIFT with the rescale rule."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import keras
import numpy as np
from keras import ops

from ...targets import Function, Setting, Target
from .._baselines import Baseline, baselines, described
from .._method import method, result
from .._path import Ends, Walked, mean_over_paths
from .._problem import Problem
from .._result import Attribution
from .._rows import RowRange
from .._tensors import to_numpy


@method
def deep_lift(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    baseline: Baseline = "zeros",
    batch_size: int | None = None,
) -> Attribution:
    """Contribution of each number against a reference, in a single pass.

    Shrikumar, Greenside and Kundaje, *Learning Important Features Through Propagating
    Activation Differences* (2017), eqs. 3, 5 and 10: at each function of one number the
    slope Δy / Δx between the example and its reference takes the place of the
    derivative (the rescale rule), and max-pooling shares the difference among the
    winners. The values of an example add up to F(x) − F(x′), unless something else is
    not linear (products of activations, attention, softmax: explain the logits);
    `.delta` is what is missing. One forward and one backward pass of twice the batch.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> a = attribute.deep_lift(model, np.ones((5, 3)), class_score(1))
    >>> bool(abs(a.delta).max() < 1e-5)
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs.
        baseline: The reference, as in `integrated_gradients`.
        batch_size: Maximum number of rows in a pass; an example takes
            two.

    Returns:
        The attribution.
    """
    # A pass under this rule needs references: what the layer gives comes from a plain
    # pass.
    plain = Problem(model, x, target, layer, batch_size=batch_size)
    one = plain.target
    both = Halves(one) if isinstance(one, Function) else one
    problem = Problem(model, x, both, layer, rule="rescale", batch_size=batch_size)
    if layer is not None:
        problem.know(plain.at)

    def walk(part: RowRange, ends: Ends, count: int) -> Walked:
        del count
        rows = np.concatenate([part.index, part.index])
        start, end = (problem.free.tensors(part.index, arrays) for arrays in ends)
        pairs = [ops.concatenate(pair) for pair in zip(end, start, strict=True)]
        passed = problem.gradients(rows, pairs)
        scores = to_numpy(passed.scores).reshape(2, -1)
        return scores[::-1], [to_numpy(g)[: len(part.index)] for g in passed.gradients]

    examples, _ = plain.at_once(1)
    if batch_size is not None:
        examples = min(examples, max(batch_size // 2, 1))
    starts = baselines(plain, baseline)
    values, score, before = mean_over_paths(plain, starts, walk, (examples, 1))
    settings = {"baseline": described(baseline)}
    return result(problem, values, score, baseline_score=before, settings=settings)


@dataclass(frozen=True, eq=False)
class Halves(Target):
    """A function of the outputs, of the examples and then of their references.

    It may hold something for each example, so it must not see both at once.
    """

    function: Function

    def key(self) -> Hashable:
        """Returns another key than the function of a whole batch has."""
        return ("halves", self.function.key())

    def value(self, setting: Setting) -> Any:
        """The sum over the examples."""
        return ops.sum(self.scores(setting))

    def scores(self, setting: Setting) -> Any:
        """The number of each example, and then that of each reference."""
        number = setting.batch_size // 2
        scores = []
        for rows in (slice(None, number), slice(number, None)):
            some = keras.tree.map_structure(itemgetter(rows), setting.outputs)
            half = replace(setting, outputs=some, batch_size=number)
            scores.append(self.function.scores(half))
        return ops.concatenate(scores)

    def __str__(self) -> str:
        return str(self.function)
