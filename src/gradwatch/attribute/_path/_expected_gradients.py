"""Expected gradients: random points on the paths from data to the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._errors import renamed
from .._checked import check
from .._method import method, result
from .._problem import Problem
from .._result import Attribution
from ._walk import Path


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
    """Contribution of each number to the target, against data as baselines.

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
        samples: Number of draws for each example.
        seed: Of the draws, which are the same on every backend.
        batch_size: Maximum number of rows in a pass.

    Returns:
        The attribution.
    """
    check(samples=samples, seed=seed)
    problem = Problem(model, x, target, layer, batch_size=batch_size)
    with renamed(x="data", baseline="data"):
        background = problem.values_of(data)
    random = np.random.default_rng(seed)
    size = (samples, problem.size)
    draws = random.integers(len(background[0]), size=size)
    alphas = random.uniform(size=size).astype("float32")

    def start(number: int, rows: np.ndarray) -> list[np.ndarray]:
        return [array[draws[number, rows]] for array in background]

    values, _ = Path(problem, start, alphas, np.full(samples, 1 / samples)).sums()
    return result(problem, values, problem.own[0])
