"""The gradient of one neuron."""

from __future__ import annotations

from typing import Any

from ._method import method, result
from ._result import Attribution
from ._unit import of_neuron


@method
def neuron_gradient(
    model: Any,
    x: Any,
    target: Any,
    *,
    layer: Any = None,
    batch_size: int | None = None,
) -> Attribution:
    """How fast a neuron changes with each input.

    As `saliency` with its sign (Simonyan et al., 2014, eq. 3), of one number that a
    layer gives. One forward pass, and a backward pass from the layer.

    Example:
    >>> from gradwatch import attribute
    >>> import keras, numpy as np
    >>> layers = [keras.layers.Dense(4, name="a"), keras.layers.Dense(2)]
    >>> model = keras.Sequential([keras.Input((3,)), *layers])
    >>> a = attribute.neuron_gradient(model, np.ones((5, 3)), 2, layer="a")
    >>> a.target, a.values.shape
    ('neuron 2 of a', (5, 3))

    Args:
        model: A Keras model or layer.
        x: One batch of inputs.
        target: The neuron, which is what is explained: its place in what the layer
            gives, without the batch axis, a number or a tuple of them.
        layer: The layer of the neuron.
        batch_size: The most examples that go through the model at a time.

    Returns:
        The attribution, to the inputs.
    """
    problem = of_neuron(model, x, target, layer, batch_size)
    scores, gradients, _ = problem.own()
    return result(problem, gradients, scores)
