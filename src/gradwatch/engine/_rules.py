"""Other backward rules at nonlinearities, for as long as one forward pass runs.

Keras has one function for each nonlinearity and backend, looked up where it is called:
`keras.layers.ReLU`, `Activation("relu")`, `activation="relu"`, `keras.ops.relu` and the
nodes of a functional graph all end there, in whatever model they are nested. A stand-in
takes the place of that function while a pass is traced, seen only by this context;
other threads run the original, and when the pass ends nothing is left.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from .._keras import operation_modules
from ..backends import Tensor, current

Function = Callable[[Tensor], Tensor]

RECTIFIERS = ("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu")
"""What guided backpropagation and deconvolution change."""
NONLINEARITIES = (
    *RECTIFIERS,
    *("sigmoid", "tanh", "softplus", "softsign", "hard_sigmoid", "hard_silu"),
    *("hard_tanh", "log_sigmoid", "squareplus", "tanh_shrink", "soft_shrink"),
)
"""What the rescale rule changes: every function of one number."""

NEAR = 1e-6
"""Below this difference a quotient says less than the derivative."""


def guided(function: Function, x: Tensor) -> Tensor:
    """Lets only positive gradients through, and those as the function does."""
    return current().positive_gradient(function(x))


def deconvnet(function: Function, x: Tensor) -> Tensor:
    """Lets only positive gradients through, whatever the function did."""
    straight = current().positive_gradient(x) - ops.stop_gradient(x)
    return ops.stop_gradient(function(x)) + straight


def rescale(function: Function, x: Tensor) -> Tensor:
    """Takes the slope between an example and its reference for the derivative.

    The first half of the batch are the examples, the second half their references.
    """
    y = function(x)
    example, reference = _halves(ops.stop_gradient(x))
    above, below = _halves(ops.stop_gradient(y))
    near, step = _step(example - reference)
    near, slope = ops.tile(near, _twice(x)), ops.tile((above - below) / step, _twice(x))
    straight = ops.stop_gradient(y) + slope * (x - ops.stop_gradient(x))
    return ops.where(near, y, straight)


def rescale_pool(function: Function, x: Tensor) -> Tensor:
    """Shares the difference of a maximum among the winners of both halves.

    The example's winner gets what the larger maximum has over the reference's, and the
    reference's winner the rest, each as a slope of its own difference. What is added
    here is zero; only its gradient, that of the example, is not.
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
    """Returns where there is hardly a difference, and one to divide by."""
    near = ops.abs(difference) < NEAR
    return near, ops.where(near, ops.ones_like(difference), difference)


def _twice(tensor: Tensor) -> tuple[int, ...]:
    return (2, *[1] * (len(tensor.shape) - 1))


RULES: dict[str, dict[str, Callable[[Function, Tensor], Tensor]]] = {
    "guided": dict.fromkeys(RECTIFIERS, guided),
    "deconvnet": dict.fromkeys(RECTIFIERS, deconvnet),
    "rescale": {
        **dict.fromkeys(NONLINEARITIES, rescale),
        "max_pool": rescale_pool,
    },
}


class Ruled:
    """A rule that is in force, and how often it was applied."""

    def __init__(self, name: str | None) -> None:
        self.rules = RULES[name] if name is not None else {}
        self.times = 0


@contextlib.contextmanager
def ruled(name: str | None) -> Iterator[Ruled]:
    """Puts a rule in force for this context; takes it back, whatever happens."""
    force = Ruled(name)
    if name is None:
        yield force
        return
    token = _force.set(force)
    installed: list[_StandIn] = []
    try:
        for module in operation_modules():
            installed += [
                _stand_in(module, function)
                for function in force.rules
                if hasattr(module, function)
            ]
        yield force
    finally:
        _force.reset(token)
        for stand_in in reversed(installed):
            stand_in.release()


_force: ContextVar[Ruled | None] = ContextVar("gradwatch_rule", default=None)
_installing = threading.Lock()


class _StandIn:
    """Stands in for one function of Keras while any context has a rule."""

    def __init__(self, module: Any, name: str) -> None:
        self.module = module
        self.name = name
        self.original = getattr(module, name)
        self.users = 0
        functools.update_wrapper(self, self.original, updated=())

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        force = _force.get()
        if force is None or self.name not in force.rules or not _is_number(x):
            return self.original(x, *args, **kwargs)
        # Keras writes some of these functions with others of them.
        token = _force.set(None)
        try:
            force.times += 1
            rule = force.rules[self.name]
            return rule(lambda t: self.original(t, *args, **kwargs), x)
        finally:
            _force.reset(token)

    def release(self) -> None:
        """The last user takes it away."""
        with _installing:
            self.users -= 1
            if not self.users:
                setattr(self.module, self.name, self.original)


def _stand_in(module: Any, name: str) -> _StandIn:
    with _installing:
        stand_in = getattr(module, name)
        if not isinstance(stand_in, _StandIn):
            stand_in = _StandIn(module, name)
            setattr(module, name, stand_in)
        stand_in.users += 1
        return stand_in


def _is_number(x: Any) -> bool:
    if not keras.ops.is_tensor(x) or isinstance(x, keras.KerasTensor):
        return False
    return "float" in keras.backend.standardize_dtype(x.dtype)
