"""Integrated gradients of one neuron."""

from __future__ import annotations

from typing import Any

from ._baselines import Baseline, baselines, described
from ._integrated_gradients import integrate
from ._method import method, result
from ._path import whole
from ._result import Attribution
from ._unit import of_neuron


@method
def neuron_integrated_gradients(  # noqa: PLR0913 - the path, and how it is walked
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    baseline: Baseline = "zeros",
    steps: int = 50,
    rule: str = "gauss_legendre",
    batch_size: int | None = None,
) -> Attribution:
    """What each input adds to a neuron on the way from a baseline.

    As `integrated_gradients` (Sundararajan et al., 2017, eq. 1), of one number that a
    layer gives. `steps + 2` forward passes, and backward passes from the layer.

    Example:
    >>> from gradwatch import attribute
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, name="a"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> a = attribute.neuron_integrated_gradients(model, np.ones((5, 3)), 2, layer="a")
    >>> bool(abs(a.delta).max() < 1e-5)
    True

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: The neuron: its place in what the layer gives, as in
            `neuron_gradient`.
        layer: The layer of the neuron.
        baseline: Where the path begins, as in `integrated_gradients`.
        steps: Points on the path.
        rule: `"gauss_legendre"` or `"trapezoid"`.
        batch_size: The most rows that go through the model at a time.

    Returns:
        The attribution, to the inputs.
    """
    problem = of_neuron(model, x, target, layer, batch_size)
    starts = baselines(problem, baseline)
    values, score, start = integrate(problem, starts, rule, whole(steps))
    settings = {"baseline": described(baseline), "steps": steps, "rule": rule}
    return result(problem, values, score, baseline_score=start, settings=settings)
