"""Other backward rules for nonlinearities, active during one forward pass.

Keras has one function per nonlinearity and backend and looks it up at every call:
`keras.layers.ReLU`, `Activation("relu")`, `activation="relu"`, `keras.ops.relu` and the
nodes of a functional graph all end there, however deeply the model is nested. That
function is shadowed while a pass is traced. Other threads run the original.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from .._keras import operation_modules
from .._shadow import Shadows
from ..backends import Tensor
from ._session import Facts

Function = Callable[[Tensor], Tensor]
Rule = Callable[[Function, Tensor], Tensor]

RECTIFIERS = ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu")
"""Functions that guided backpropagation and deconvolution change."""
NONLINEARITIES = (
    *RECTIFIERS,
    *("sigmoid", "tanh", "softplus", "softsign", "hard_sigmoid", "hard_silu"),
    *("hard_tanh", "log_sigmoid", "squareplus", "tanh_shrink", "soft_shrink"),
)
"""Functions that the rescale rule changes: all functions of one number."""

NEAR = 1e-6
"""Smallest difference for which the quotient is more accurate than the derivative."""


def positive_gradient(x: Tensor) -> Tensor:
    """Returns the tensor; of its gradient only what is positive goes on."""

    def backward(*given: Tensor, upstream: Tensor = None) -> Tensor:
        # On torch, Keras gives the inputs first and the gradient by name.
        return ops.maximum(given[0] if upstream is None else upstream, 0)

    return ops.custom_gradient(lambda inside: (ops.copy(inside), backward))(x)


def guided(function: Function, x: Tensor) -> Tensor:
    """Lets only positive gradients pass, and applies the derivative to them."""
    return positive_gradient(function(x))


def deconvnet(function: Function, x: Tensor) -> Tensor:
    """Lets only positive gradients pass, and ignores the derivative."""
    straight = positive_gradient(x) - ops.stop_gradient(x)
    return ops.stop_gradient(function(x)) + straight


def rescale(function: Function, x: Tensor) -> Tensor:
    """Replaces the derivative by the slope between an example and its reference.

    The first half of the batch holds the examples, the second half their references.
    """
    y = function(x)
    example, reference = _halves(ops.stop_gradient(x))
    above, below = _halves(ops.stop_gradient(y))
    near, step = _step(example - reference)
    near, slope = (ops.concatenate([t, t]) for t in (near, (above - below) / step))
    straight = ops.stop_gradient(y) + slope * (x - ops.stop_gradient(x))
    return ops.where(near, y, straight)


def rescale_pool(function: Function, x: Tensor) -> Tensor:
    """Divides the difference of a maximum between the winners of both halves.

    The winner of the example gets the difference between the larger maximum and the
    reference's maximum, and the winner of the reference gets the rest, each as a slope
    of its own difference. The terms added here are zero; only their gradients, those
    of the example, are not.
    """
    stop = ops.stop_gradient
    example, reference = _halves(x)
    above, below = function(stop(example)), function(stop(reference))
    largest = ops.maximum(above, below)
    near, step = _step(stop(example - reference))
    zero = example - stop(example)
    sloped = ops.where(near, ops.zeros_like(zero), zero / step)
    plain = ops.where(near, zero, ops.zeros_like(zero))
    y = (
        above
        + (largest - below) * (function(stop(example) + sloped) - above)
        + (above - largest) * (function(stop(reference) + sloped) - below)
        + (function(stop(example) + plain) - above)
    )
    return ops.concatenate([y, function(reference)])


def _halves(tensor: Tensor) -> tuple[Tensor, Tensor]:
    half = tensor.shape[0] // 2
    return tensor[:half], tensor[half:]


def _step(difference: Tensor) -> tuple[Tensor, Tensor]:
    """Returns a mask of negligible differences, and safe divisors."""
    near = ops.abs(difference) < NEAR
    return near, ops.where(near, ops.ones_like(difference), difference)


RULES: dict[str, dict[str, Rule]] = {
    "guided": dict.fromkeys(RECTIFIERS, guided),
    "deconvnet": dict.fromkeys(RECTIFIERS, deconvnet),
    "rescale": {
        **dict.fromkeys(NONLINEARITIES, rescale),
        "max_pool": rescale_pool,
    },
}


_active: ContextVar[Facts | None] = ContextVar("gradwatch_rule", default=None)
"""The facts of the innermost pass in this context; None inside a replaced function."""


@contextlib.contextmanager
def ruled(name: str | None, facts: Facts) -> Iterator[None]:
    """Applies a backward rule to the nonlinearities that are called in the block."""

    def around(rule: Rule, function: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        is_tensor = keras.ops.is_tensor(x) and not isinstance(x, keras.KerasTensor)
        is_float = is_tensor and "float" in keras.backend.standardize_dtype(x.dtype)
        if _active.get() is not facts or not is_float:
            return function(x, *args, **kwargs)
        # Keras implements some of these functions by calling others of them.
        token = _active.set(None)
        try:
            facts.ruled += 1
            return rule(lambda t: function(t, *args, **kwargs), x)
        finally:
            _active.reset(token)

    token = _active.set(facts)
    try:
        with Shadows() as shadows:
            for module in operation_modules():
                for function, rule in RULES.get(name or "", {}).items():
                    if hasattr(module, function):
                        shadows.put(module, function, functools.partial(around, rule))
            yield
    finally:
        _active.reset(token)
