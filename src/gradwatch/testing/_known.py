"""A model with known gradients: derived by hand, computed in NumPy."""

from __future__ import annotations

from dataclasses import dataclass

import keras
import numpy as np
from keras import layers


@dataclass(frozen=True, slots=True)
class Known:
    """A model, its data, and the value and gradients of its loss, by address.

    Attributes:
        model: Two layers, `tanh(x A + a) B + b`, with mean squared error.
        x: One batch of inputs.
        y: Labels of the batch.
        value: The loss.
        weights: The gradient of each weight.
        activations: The gradient of each layer's output.
        inputs: The gradient of the inputs.
    """

    model: keras.Model
    x: np.ndarray
    y: np.ndarray
    value: float
    weights: dict[str, np.ndarray]
    activations: dict[str, np.ndarray]
    inputs: np.ndarray


def known(seed: int = 0) -> Known:
    """Returns a small model and its gradients from the chain rule, in float64.

    Example:
    >>> import gradwatch as gw, numpy as np
    >>> from gradwatch import testing
    >>> right = testing.known()
    >>> g = gw.gradients(right.model, right.x, right.y)
    >>> all(np.allclose(g[name], right.weights[name], atol=1e-6) for name in g)
    True

    Args:
        seed: Seed of the weights and data.

    Returns:
        The model, its data and its gradients.
    """
    rng = np.random.default_rng(seed)
    first, offset = rng.normal(size=(4, 5)), rng.normal(size=5)
    second, bias = rng.normal(size=(5, 2)), rng.normal(size=2)
    # Three examples, the same on every machine.
    x = np.random.default_rng(seed).normal(size=(3, 4))
    y = np.random.default_rng(seed + 1).normal(size=(3, 2))
    below = layers.Dense(5, activation="tanh", name="hidden")
    head = layers.Dense(2, name="head")
    model = keras.Sequential([keras.Input((4,)), below, head], name="known")
    model.set_weights([first, offset, second, bias])
    model.compile(keras.optimizers.SGD(1.0), "mse")
    # The chain rule.
    hidden = np.tanh(x @ first + offset)
    error = hidden @ second + bias - y
    at_head = 2 * error / error.size
    at_hidden = at_head @ second.T
    before_tanh = at_hidden * (1 - hidden**2)
    weights = {
        "hidden/kernel": x.T @ before_tanh,
        "hidden/bias": before_tanh.sum(axis=0),
        "head/kernel": hidden.T @ at_head,
        "head/bias": at_head.sum(axis=0),
    }
    activations = {"hidden": at_hidden, "head": at_head}
    value = float(np.mean(error**2))
    return Known(model, x, y, value, weights, activations, before_tanh @ first.T)
