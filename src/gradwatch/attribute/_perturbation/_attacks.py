"""Adversarial examples: the batch, moved along the gradient of a target."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from ..._errors import require
from ...targets import Loss, as_target
from .._checked import check, require_one_of
from .._problem import Problem
from .._tensors import to_numpy

GOALS = ("lower", "raise")


def fgsm(  # noqa: PLR0913 - what is attacked, how far, within what
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    epsilon: float,
    goal: str | None = None,
    y: Any = None,
    bounds: tuple[float, float] | None = None,
) -> Any:
    """The batch, each number moved by `epsilon` against the target: an attack.

    Goodfellow, Shlens and Szegedy, *Explaining and Harnessing Adversarial Examples*
    (2015), section 4: x + ε · sign(∇J). One forward and one backward pass.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> x = np.ones((5, 3), "float32")
    >>> moved = attribute.fgsm(model, x, class_score(1), epsilon=0.1)
    >>> bool(np.allclose(abs(moved - x), 0.1, atol=1e-6))
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is attacked: a score as in `saliency`, or `loss()`, which needs
            `y`. None: the compiled loss.
        layer: The layer whose output is moved, such as the embedding of a text model
            (Miyato, Dai and Goodfellow, 2017); None: the inputs.
        epsilon: The distance that each number moves.
        goal: `"lower"` or `"raise"` the target. None: scores are lowered, losses
            raised.
        y: The labels, for a loss.
        bounds: The least and the largest number allowed, such as `(0, 1)`.

    Returns:
        NumPy arrays in the structure of `x`; with `layer=`, what the layer gives,
        moved: an array, or a dict by name where there are several.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    options = {"layer": layer, "goal": goal, "y": y, "bounds": bounds}
    return pgd(model, x, target, epsilon=epsilon, step=epsilon, steps=1, **options)


def pgd(  # noqa: PLR0913 - what is attacked, how far, within what
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    epsilon: float,
    step: float,
    steps: int = 40,
    norm: str = "inf",
    seed: int | None = None,
    goal: str | None = None,
    y: Any = None,
    bounds: tuple[float, float] | None = None,
) -> Any:
    """The batch, moved against the target in many steps, no further than `epsilon`.

    Madry, Makelov, Schmidt, Tsipras and Vladu, *Towards Deep Learning Models Resistant
    to Adversarial Attacks* (2018), section 2.1: x ← Π(x + α · sign(∇J)), Π being the
    projection onto the ball around the input. `steps` forward and backward passes.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> x = np.ones((5, 3), "float32")
    >>> moved = attribute.pgd(
    ...     model, x, class_score(1), epsilon=0.1, step=0.03, steps=10
    ... )
    >>> bool(abs(moved - x).max() <= 0.1 + 1e-6)
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is attacked, as in `fgsm`.
        layer: The layer whose output is moved, as in `fgsm`; None: the inputs.
        epsilon: The radius of the ball.
        step: The length of a step.
        steps: Number of steps.
        norm: `"inf"`: each number moves by `step`, at most `epsilon` in all; `"l2"`:
            each example moves along its gradient, measured by the root of the sum of
            squares.
        seed: Begins at a random point in the ball. None: at the input.
        goal: `"lower"` or `"raise"` the target; None as in `fgsm`.
        y: The labels, for a loss.
        bounds: The least and the largest number allowed.

    Returns:
        NumPy arrays in the structure of `x`, or what the layer gives, as in `fgsm`.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    require_one_of(norm, "norm", ("inf", "l2"))
    check(epsilon=epsilon, step=step, steps=steps, seed=seed)
    low, high = _checked_bounds(bounds)
    chosen = as_target(target)
    require_one_of(goal, "goal", (None, *GOALS))
    sign = 1.0 if (goal or GOALS[isinstance(chosen, Loss)]) == "raise" else -1.0
    problem = Problem(model, x, chosen, layer, labels=(y,))
    origin = problem.free.values
    at = [v.copy() for v in origin]
    if seed is not None:
        random = np.random.default_rng(seed)
        offsets = [_random_offset(random, v.shape, epsilon, norm) for v in origin]
        at = [np.clip(v + o, low, high) for v, o in zip(origin, offsets, strict=True)]

    for _ in range(steps):
        passes = problem.passes(1, lambda _, rows: [array[rows] for array in at])
        [(_, _, [_, *gradients])] = passes
        for number, own in enumerate(origin):
            g = gradients[number][0]
            way = np.sign(g) if norm == "inf" else g / _length(g)
            moved = _within(at[number] + step * sign * way - own, epsilon, norm)
            at[number] = np.clip(own + moved, low, high)
    if layer is None:
        return keras.tree.map_structure(to_numpy, problem.moved(at))
    return at[0] if len(at) == 1 else dict(zip(problem.at.names, at, strict=True))


def _checked_bounds(bounds: Any) -> tuple[float, float]:
    """Raises when `bounds` are no two numbers, the smaller one first."""
    try:
        low, high = map(float, (-math.inf, math.inf) if bounds is None else bounds)
    except (TypeError, ValueError):
        low = high = math.nan
    rule = "`bounds` must be the least and the largest number allowed, such as "
    require(low < high, rule + "`(0, 1)`, or None.", bounds)
    return low, high


def _length(values: np.ndarray) -> np.ndarray:
    """Returns the root of the sum of squares of each example; never zero."""
    axes = tuple(range(1, values.ndim))
    square = np.square(values, dtype="float64").sum(axis=axes, keepdims=True)
    return np.asarray(np.maximum(np.sqrt(square), 1e-30), dtype=values.dtype)


def _within(moved: np.ndarray, epsilon: float, norm: str) -> np.ndarray:
    """Projects offsets onto the ball."""
    if norm == "inf":
        return np.asarray(np.clip(moved, -epsilon, epsilon))
    return np.asarray(moved * np.minimum(1.0, epsilon / _length(moved)))


def _random_offset(
    random: np.random.Generator, shape: tuple[int, ...], epsilon: float, norm: str
) -> np.ndarray:
    if norm == "inf":
        return random.uniform(-epsilon, epsilon, shape).astype("float32")
    way = random.standard_normal(shape, "float32")
    share = random.uniform(size=(shape[0], *[1] * (len(shape) - 1)))
    return np.asarray(way / _length(way) * epsilon * share, dtype="float32")
