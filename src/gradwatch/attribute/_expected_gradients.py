"""Expected gradients: integrated gradients over many baselines, by chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import GradwatchError, told_as
from ._checked import require_count, require_seed
from ._method import method, result
from ._path import times, weighted
from ._problem import Problem
from ._result import Attribution
from ._rows import in_parts
from ._spots import host


@method
def expected_gradients(  # noqa: PLR0913 - what is drawn, and how often
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    data: Any = None,
    samples: int = 50,
    seed: int = 0,
    batch_size: int | None = None,
) -> Attribution:
    """What each number adds to the target, against data instead of one baseline.

    Erion, Janizek, Sturmfels, Lundberg and Lee, *Improving Performance of Deep Learning
    Models with Axiomatic Attribution Priors and Expected Gradients* (2021), eq. 3:
    E[(x − x′) · ∂F/∂x (x′ + α (x − x′))] over x′ from the data and α from 0 to 1. Also
    known as GradientSHAP. The values add up to F(x) − E[F(x′)], on average over draws.
    `samples` forward and backward passes of the batch.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> data = np.random.default_rng(0).normal(size=(100, 3))
    >>> a = attribute.expected_gradients(model, data[:4], class_score(1), data=data)
    >>> a.values.shape
    (4, 3)

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs.
        data: What the input is compared with: inputs in the structure of `x`, as many
            examples as you like.
        samples: How many draws for each example.
        seed: Of the draws, which are the same on every backend.
        batch_size: The most rows that go through the model at a time.

    Returns:
        The attribution.
    """
    if data is None:
        raise GradwatchError(
            "`data` must hold examples to compare with. Received: None. Pass some of "
            "the training data; for a single baseline use "
            "`gradwatch.integrated_gradients(…, baseline=…)`."
        )
    require_count(samples, "samples")
    require_seed(seed)
    problem = Problem(model, x, target, layer, batch_size=batch_size)
    with told_as("data", "x", "baseline"):
        background = problem.values_of(data)
    random = np.random.default_rng(seed)
    size = (samples, problem.size)
    draws = random.integers(len(background[0]), size=size)
    alphas = random.uniform(size=size).astype("float32")
    examples, count = problem.at_once(samples)
    values: list[list[np.ndarray]] = []
    for some in in_parts(problem.size, examples):
        rows = np.tile(some.index, count)
        own = [array[rows] for array in problem.free.values]
        totals = [np.zeros(1, array.dtype) for array in own]
        for part in in_parts(samples, count):
            start = [b[draws[part.index][:, some.index].ravel()] for b in background]
            where = alphas[part.index][:, some.index].ravel()
            way = [x - b for x, b in zip(own, start, strict=True)]
            points = [
                b + _column(where, w) * w for b, w in zip(start, way, strict=True)
            ]
            found = problem.gradients(
                rows, problem.free.tensors(np.arange(len(rows)), points)
            )
            share = (np.arange(count) < part.real) / samples
            totals = [
                t + host(weighted(share, times(g, w)))
                for t, g, w in zip(totals, found.gradients, way, strict=True)
            ]
        values.append([total[: some.real] for total in totals])
    together = [np.concatenate(column) for column in zip(*values, strict=True)]
    return result(
        problem,
        together,
        scores_of(problem),
        settings={"samples": samples, "seed": seed},
    )


def scores_of(problem: Problem) -> np.ndarray:
    """Returns the target of each example."""
    return problem.own()[0]


def _column(numbers: np.ndarray, like: np.ndarray) -> np.ndarray:
    return numbers.reshape(-1, *[1] * (like.ndim - 1))
