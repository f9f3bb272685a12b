"""Sensitivity: whether a small change of the input changes the explanation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._errors import counted
from .._checked import check
from .._progress import progress_bar
from .._result import Attribution
from ._question import flat_values, problem_of, question_of, require_finite


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sensitivity:
    """The largest change of each example's explanation.

    Attributes:
        method: Of the attribution.
        target: What it explains, in words.
        values: The largest ‖Φ(y) − Φ(x)‖ of each example.
        relative: The same, divided by ‖Φ(x)‖; as it is where that is zero.
        radius: Largest distance of y from x in any of its numbers.
        samples: Number of y that were tried.
    """

    method: str
    target: str
    values: np.ndarray
    relative: np.ndarray
    radius: float
    samples: int

    def __repr__(self) -> str:
        number = counted(self.samples, "perturbation")
        return (
            f"{self.method} of {self.target}: {number} of at most {self.radius:g} "
            f"changed the explanation by up to {np.mean(self.relative):.1%} of its "
            f"size, on average over {counted(len(self.values), 'example')} (worst "
            f"{np.max(self.relative):.1%})."
        )


def sensitivity_max(
    a: Attribution,
    model: Any,
    x: Any = None,
    *,
    radius: float = 0.02,
    samples: int = 10,
    seed: int = 0,
    progress: bool | None = None,
) -> Sensitivity:
    """The largest change of the explanation under a small change of the input.

    Yeh, Hsieh, Suggala, Inouye and Ravikumar, *On the (In)fidelity and Sensitivity of
    Explanations* (2019), section 3: max ‖Φ(f, y) − Φ(f, x)‖ over ‖y − x‖ ≤ r, by Monte
    Carlo: y is drawn evenly from the cube of that radius. `samples + 1` runs of the
    method that made `a`.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> a = gw.saliency(model, np.ones((5, 3)), gw.class_score(1))
    >>> s = gw.attribute.quality.sensitivity_max(a, model)
    >>> s.values.tolist()  # the gradient of a linear model is the same everywhere
    [0.0, 0.0, 0.0, 0.0, 0.0]

    Args:
        a: The attribution.
        model: The model it explains.
        x: Another batch, which is explained in the same way. None: that of `a`.
        radius: The largest change of each number of the input; in a model of tokens,
            of what the layer gives.
        samples: Number of changes that are tried.
        seed: Of the changes, which are the same on every backend.
        progress: True or False for a bar or none. None: one in a terminal, if it
            takes longer than two seconds.

    Returns:
        The largest change for each example, absolute and relative.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    check(radius=radius, samples=samples, seed=seed)
    a, again, x = question_of(a, model, x)
    random = np.random.default_rng(seed)

    with progress_bar("sensitivity_max", samples, progress) as tick:
        # Not `a` itself, which may have been summed or resized since.
        own = flat_values(again(model, x))
        largest = np.zeros(len(own))
        problem = problem_of(a, model, x, free="floats")
        for _ in range(samples):
            values = problem.free.values
            changes = [random.uniform(-radius, radius, v.shape) for v in values]
            pairs = zip(values, changes, strict=True)
            noisy = [(v + change).astype(v.dtype) for v, change in pairs]
            moved = again(model, problem.moved(noisy))
            require_finite(moved)
            change = np.linalg.norm(flat_values(moved) - own, axis=1)
            largest = np.maximum(largest, change)
            tick(1)
    size = np.linalg.norm(own, axis=1)
    relative = largest / np.where(size == 0, 1.0, size)
    return Sensitivity(a.method, a.target, largest, relative, radius, samples)
