"""Infidelity: whether the explanation foretells what a change of the input does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._errors import GradwatchError, counted, require
from .._baselines import Baseline, baselines
from .._checked import check, is_count
from .._problem import Problem
from .._result import Attribution
from ._perturbations import Perturbation, perturbations
from ._question import arguments_of, finite_scores, problem_of, question_of

GRADIENTS = ("saliency", "guided_backprop", "deconvnet", "internal_influence")
"""Methods whose values are the gain of the target per unit of each number."""
CONTRIBUTIONS = (
    *("input_x_gradient", "layer_gradient_x_activation", "integrated_gradients"),
    *("deep_lift", "expected_gradients", "occlusion"),
)
"""Methods whose values are the gain from each number, against a baseline."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Infidelity:
    """Error of the explanation of each example about changes of its input.

    Attributes:
        method: Of the attribution.
        target: What it explains, in words.
        values: The infidelity of each example: a mean square, 0 is best.
        relative: The same as a share of what no explanation at all would have, the
            mean square of the change itself: 1 is as bad as nothing.
        scale: What the explanation was multiplied by; 1 unless `normalise`.
        predicted: What the explanation says of each change: [samples, examples].
        changes: What each change did to the target: [samples, examples].
    """

    method: str
    target: str
    values: np.ndarray
    relative: np.ndarray
    scale: np.ndarray
    predicted: np.ndarray
    changes: np.ndarray

    def __repr__(self) -> str:
        return (
            f"{self.method} of {self.target}: infidelity {np.mean(self.values):.3g}, "
            f"{np.mean(self.relative):.1%} of that of no explanation, on average over "
            f"{counted(len(self.values), 'example')} and "
            f"{counted(len(self.changes), 'perturbation')}."
        )


def infidelity(  # noqa: PLR0913 - what is taken away, and how often
    a: Attribution,
    model: Any,
    x: Any = None,
    *,
    perturbation: Perturbation = "noisy_baseline",
    baseline: Baseline = None,
    size: float = 0.2,
    samples: int = 50,
    normalise: bool = False,
    seed: int = 0,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> Infidelity:
    """Error of what the explanation foretells about changes of the input.

    Yeh, Hsieh, Suggala, Inouye and Ravikumar, *On the (In)fidelity and Sensitivity of
    Explanations* (2019), definition 2.1: E[(Iᵀ Φ − (f(x) − f(x − I)))²] over
    perturbations I. Φ is what the target gains per unit: values that are gains already
    (`integrated_gradients`, `input_x_gradient` and their kin) are divided by the
    distance from their baseline first. `samples + 1` forward passes of the batch.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> x = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    >>> a = gw.saliency(model, x, gw.class_score(1), absolute=False)
    >>> result = gw.attribute.quality.infidelity(a, model)
    >>> bool((result.values < 1e-9).all())  # the gradient says all of a linear model
    True

    Args:
        a: The attribution, one value for each number of the input or the layer.
        model: The model it explains.
        x: Another batch, which is explained first. None: that of `a`.
        perturbation: `"noisy_baseline"`: all the way to the baseline, with noise on
            it; `"square"`: a random square of the image (a stretch of a sequence, a
            random set of features) is replaced by the baseline; or a function
            `(values, generator) -> I` for each input, such as
            `lambda v, random: 0.1 * random.normal(size=v.shape)`.
        baseline: What numbers are replaced by, as in `integrated_gradients`. None:
            what the method itself compared with, else zeros.
        size: The noise, as a share of each example's range; or the side of the square,
            as a share of each axis; for tables, the share of the features.
        samples: Number of perturbations.
        normalise: Multiplies the explanation by the one number per example that suits
            it best, for methods which mean their values only up to a scale.
        seed: Of the perturbations, which are the same on every backend.
        batch_size: Maximum number of rows in a pass.
        progress: As in `sensitivity_max`.

    Returns:
        The infidelity of each example, and what it was made of.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    check(size=size, samples=samples)
    require(is_count(seed, 0), "`seed` must be a whole number from 0.", seed)
    too_large = not callable(perturbation) and perturbation == "square" and size > 1
    rule = "`size` must be a share of the image, up to 1, for squares."
    require(not too_large, rule, size)
    a, _, x = question_of(a, model, x)
    is_gain = _is_gain(a)
    problem = problem_of(a, model, x, batch_size=batch_size)
    own = _own_baseline(a, problem)
    covers = own if baseline is None else _mean(baselines(problem, baseline))
    slopes = _slopes(a, problem, own, is_gain=is_gain)
    perturbed = perturbations(problem.free.places, perturbation, covers, size, seed)
    predicted = np.zeros((samples, problem.size))

    def point(number: int, rows: np.ndarray) -> list[np.ndarray]:
        if number == samples:  # the last one is the input itself
            return [values[rows] for values in problem.free.values]
        taken = perturbed(number)
        predicted[number, rows] = sum(
            (slope[rows] * i[rows]).reshape(len(rows), -1).sum(axis=1, dtype="float64")
            for slope, i in zip(slopes, taken, strict=True)
        )
        pairs = zip(problem.free.values, taken, strict=True)
        return [values[rows] - i[rows] for values, i in pairs]

    scores = finite_scores(problem, samples + 1, point, "infidelity", progress)
    changes = scores[-1] - scores[:-1]
    scale = _best_scale(predicted, changes) if normalise else np.ones(problem.size)
    values = np.mean((scale * predicted - changes) ** 2, axis=0)
    nothing = np.mean(changes**2, axis=0)
    relative = np.divide(values, nothing, out=np.zeros_like(values), where=values > 0)
    return Infidelity(a.method, a.target, values, relative, scale, predicted, changes)


def _best_scale(predicted: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Returns the factor with the least mean square error, for each example."""
    square = np.mean(predicted**2, axis=0)
    # An explanation of zeros stays what it is, whatever the factor.
    least = np.where(square == 0, 1.0, square)
    return np.asarray(np.mean(predicted * changes, axis=0) / least)


def _is_gain(a: Attribution) -> bool:
    """Returns whether values are gains against a baseline, not gains per unit.

    Raises:
        GradwatchError: If they have no unit.
    """
    # That of smoothgrad is the method whose mean it is.
    method = a.settings.get("method") if a.method == "smoothgrad" else a.method
    signed = not a.settings.get("absolute")
    if signed and (method in GRADIENTS or method in CONTRIBUTIONS):
        return method in CONTRIBUTIONS
    what = "whose values only order the places" if signed else "without signs"
    raise GradwatchError(
        "`a` must say what a change of each number does to the target: a gradient "
        "(`saliency(…, absolute=False)`, …) or a gain (`integrated_gradients`, …). "
        f"Received: {a.method}, {what}. `deletion` and `insertion` need no more than "
        "that."
    )


def _own_baseline(a: Attribution, problem: Problem) -> list[np.ndarray]:
    """Returns what the method compared with; the mean, where that was several."""
    words = arguments_of(a)
    if "data" in words:
        return [array.mean(axis=0) for array in problem.values_of(words["data"])]
    return _mean(baselines(problem, words.get("baseline", "zeros")))


def _mean(several: list[list[np.ndarray]]) -> list[np.ndarray]:
    return [np.mean(arrays, axis=0) for arrays in zip(*several, strict=True)]


def _slopes(
    a: Attribution, problem: Problem, starts: list[np.ndarray], *, is_gain: bool
) -> list[np.ndarray]:
    """Returns what the target gains per unit of each number.

    Raises:
        GradwatchError: If there is not one value for each number.
    """
    slopes = []
    for place, at, start in zip(a.places, problem.free.places, starts, strict=True):
        values, own, axis = place.values, at.values, at.channels
        if a.method == "occlusion" and axis is not None and values.ndim == own.ndim - 1:
            # One value for all channels of a position, which are covered together.
            part = np.expand_dims(values, axis) / own.shape[axis]
            values = np.broadcast_to(part, own.shape)
        rule = "`a` must have a value for each number of what it explains, of shape "
        received = place.name, place.values.shape
        way_out = "Ask before `sum_channels` and `upsample`."
        require(values.shape == own.shape, f"{rule}{own.shape}.", received, way_out)
        if is_gain:
            way = own - start
            values = values / np.where(way == 0, 1.0, way)
        slopes.append(np.asarray(values, dtype="float64"))
    return slopes
