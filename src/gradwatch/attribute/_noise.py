"""Noise family: a method applied to noisy copies of the input, and reduced."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from ._checked import check
from ._gradient import saliency
from ._method import made_by, method, require_method
from ._problem import Problem
from ._result import Attribution


@method
def smoothgrad(  # noqa: PLR0913 - the noise, and what is looked at
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    method: Callable[..., Attribution] = saliency,
    samples: int = 50,
    noise: float = 0.15,
    seed: int = 0,
    **options: Any,
) -> Attribution:
    """The mean attribution over noisy copies of the input: less grain, same shapes.

    Smilkov, Thorat, Kim, Viégas and Wattenberg, *SmoothGrad* (2017), section 3:
    1/n · Σ M(x + N(0, σ²)), with σ as a share of the input's range. Wraps any method.
    As many runs of that method as there are samples.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> x = np.random.default_rng(0).normal(size=(5, 3))
    >>> a = gw.smoothgrad(model, x, gw.class_score(1), samples=10)
    >>> b = gw.smoothgrad(
    ...     model, x, gw.class_score(1), method=gw.input_x_gradient, samples=10
    ... )
    >>> a.values.shape == b.values.shape
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs. Noise is
            added to the inputs; in a model of tokens, which have none, to the layer.
        method: What is averaged: `saliency`, `integrated_gradients`, `grad_cam`, …
        samples: Number of noisy copies.
        noise: The standard deviation, as a share of each example's range (largest
            minus smallest number).
        seed: Of the noise, which is the same on every backend.
        options: Further arguments of the method, such as `batch_size` or `steps`.

    Returns:
        The attribution.
    """
    question = (model, x, target, layer)
    return _noisy(method, question, options, (samples, noise, seed), "mean")


@method
def squaregrad(  # noqa: PLR0913 - the noise, and what is looked at
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    method: Callable[..., Attribution] = saliency,
    samples: int = 50,
    noise: float = 0.15,
    seed: int = 0,
    **options: Any,
) -> Attribution:
    """The mean square of the attribution over noisy copies of the input.

    Hooker, Erhan, Kindermans and Kim, *A Benchmark for Interpretability Methods*
    (2019), section 4.1: 1/n · Σ M(x + N(0, σ²))². As `smoothgrad`, but squared.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> a = attribute.squaregrad(model, np.eye(3), class_score(1), samples=4)
    >>> bool((a.values >= 0).all())
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs.
        method: What is squared and averaged.
        samples: Number of noisy copies.
        noise: The standard deviation, as a share of each example's range.
        seed: Of the noise.
        options: Further arguments of the method.

    Returns:
        The attribution.
    """
    question = (model, x, target, layer)
    return _noisy(method, question, options, (samples, noise, seed), "square")


@method
def vargrad(  # noqa: PLR0913 - the noise, and what is looked at
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    method: Callable[..., Attribution] = saliency,
    samples: int = 50,
    noise: float = 0.15,
    seed: int = 0,
    **options: Any,
) -> Attribution:
    """The variance of the attribution over noisy copies of the input.

    Adebayo, Gilmer, Goodfellow and Kim, *Local Explanation Methods for Deep Neural
    Networks Lack Sensitivity to Parameter Values* (2018), section 2:
    Var(M(x + N(0, σ²))). As `smoothgrad`, but how much it scatters.

    Example:
    >>> from gradwatch import attribute, class_score
    >>> import keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> a = attribute.vargrad(model, np.eye(3), class_score(1), samples=4)
    >>> float(abs(a.values).max()) < 1e-12  # a linear model is the same everywhere
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: What is explained, as in `saliency`.
        layer: The layer whose output is attributed to; None: the inputs.
        method: Whose variance is taken.
        samples: Number of noisy copies.
        noise: The standard deviation, as a share of each example's range.
        seed: Of the noise.
        options: Further arguments of the method.

    Returns:
        The attribution.
    """
    question = (model, x, target, layer)
    return _noisy(method, question, options, (samples, noise, seed), "variance")


def _noisy(
    method: Callable[..., Attribution],
    question: tuple[Any, Any, Any, Any],
    options: dict[str, Any],
    draws: tuple[int, float, int],
    reduce: str,
) -> Attribution:
    """Returns the mean, the mean square or the variance over noisy copies."""
    (model, x, target, layer), (samples, noise, seed) = question, draws
    require_method(method)
    check(samples=samples, noise=noise, seed=seed)
    first = made_by(method, model, x, target, layer=layer, **options)
    moments = [np.zeros((2, *place.values.shape)) for place in first.places]
    batch_size = options.get("batch_size")
    problem = Problem(model, x, target, layer, free="floats", batch_size=batch_size)
    random, own = np.random.default_rng(seed), problem.free.values
    scales = [noise * ranges(values) for values in own]

    def draw() -> list[np.ndarray]:
        return [
            values + scale * random.standard_normal(values.shape, "float32")
            for values, scale in zip(own, scales, strict=True)
        ]

    # To draw takes as long as a twentieth of a pass: do it during the one before.
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(draw)
        for _ in range(samples):
            batch, coming = problem.moved(coming.result()), pool.submit(draw)
            result = method(model, batch, target, layer=layer, **options)
            for place, (mean, square) in zip(result.places, moments, strict=True):
                mean += place.values / samples
                square += np.square(place.values, dtype="float64") / samples
    places = []
    for place, (mean, square) in zip(first.places, moments, strict=True):
        # Rounding must not make a variance of zero negative.
        variance = np.maximum(square - mean**2, 0)
        values = {"mean": mean, "square": square, "variance": variance}[reduce]
        places.append(replace(place, values=values.astype(place.values.dtype)))
    drawn = {"method": first.method, "samples": samples, "noise": noise, "seed": seed}
    settings = {**first.settings, **drawn}
    # A mean of noisy copies adds up to another difference.
    return replace(
        first, places=tuple(places), settings=settings, delta=None, baseline_score=None
    )


def ranges(values: np.ndarray) -> np.ndarray:
    """Returns the largest minus the smallest number of each example."""
    return np.asarray(np.ptp(values, axis=tuple(range(1, values.ndim)), keepdims=True))
