"""The optimizer's step, on copies of the weights and of the optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ..._keras import (
    inner_optimizer,
    learning_rate_of,
    set_learning_rate,
    set_variable_path,
    variables_of,
)
from ._numbers import LIMITS, counts, floats, is_bad, largest


@dataclass(frozen=True, slots=True)
class Update:
    """The first weight that a step would break."""

    address: str
    cause: str
    sure: bool
    try_first: str
    evidence: dict[str, Any]


def broken_update(
    optimizer: Any, gradients: Mapping[str, Any], variables: Mapping[str, Any]
) -> Update | None:
    """Makes one step on copies, and looks for what it breaks.

    Args:
        optimizer: The optimizer; it is read, not used.
        gradients: Finite gradients by the address of their weight.
        variables: The weights by address.

    Raises:
        Exception: Whatever the optimizer raises when it is copied or used.
    """
    optimizer = inner_optimizer(optimizer)  # the gradients are unscaled
    known = variables_of(optimizer) if optimizer.built else []
    known = known or list(variables.values())
    copies = {id(variable): _copy(variable) for variable in known}
    twin = _twin(optimizer, list(copies.values()))
    state = [floats(v.value) for v in twin.variables if v.name != _RATE]
    given = {
        address: gradient
        for address, gradient in gradients.items()
        if id(variables[address]) in copies
    }
    if not given:
        return None
    stepped = [copies[id(variables[address])] for address in given]
    # Before the step: a schedule goes on to the next.
    rate = floats(getattr(twin.learning_rate, "value", twin.learning_rate))
    twin.apply(list(given.values()), stepped)
    for (address, gradient), variable in zip(given.items(), stepped, strict=True):
        after = floats(variable.value)
        constraint = getattr(variables[address], "constraint", None)
        if constraint is not None and not is_bad(after):
            bound = floats(constraint(variable.value))
            if is_bad(bound):
                evidence = _constrained(bound, after, optimizer)
                return Update(address, *_CONSTRAINT, evidence)
        if after is not None and is_bad(after):
            before, slope = floats(variables[address].value), floats(gradient)
            rest = {
                "learning_rate": None if rate is None else float(rate),
                "largest_gradient": largest(slope),
                "largest_weight": largest(before),
                "dtype": str(variable.dtype),
                "optimizer": type(optimizer).__name__,
            }
            evidence = counts(after) | rest
            spoilt = any(is_bad(part) for part in state)
            cause = _cause(twin, evidence, spoilt, slope)
            if rate is not None and is_bad(rate):
                evidence[_RATE] = str(float(rate))  # JSON has no number for it
            return Update(address, *cause, evidence)
    if any(is_bad(part) for part in state):
        return None  # nothing that this step did
    return _broken_state(twin, optimizer, given, stepped)


_RATE = "learning_rate"
_CONSTRAINT = (
    "the constraint of the weight is not finite",
    True,
    "The updated weight itself is finite: look into its `kernel_constraint` or "
    "`bias_constraint` for a division by a norm of zero, and add 1e-7 there.",
)


def _constrained(
    bound: np.ndarray | None, after: np.ndarray | None, optimizer: Any
) -> dict[str, Any]:
    return counts(bound) | {
        "largest_weight": largest(after),
        "optimizer": type(optimizer).__name__,
    }


def _cause(
    twin: Any, evidence: dict[str, Any], spoilt: bool, gradient: np.ndarray | None
) -> tuple[str, bool, str]:
    if spoilt:
        return (
            "the optimizer's state was not finite before the step",
            True,
            "An earlier step broke it: compile anew, or load the optimizer's state "
            "from before.",
        )
    rate, limit = evidence["learning_rate"], LIMITS.get(evidence["dtype"], np.inf)
    if rate is not None and not np.isfinite(rate):
        return (
            f"the learning rate is {rate}",
            True,
            "Look at what sets it: a schedule or a callback that divides by zero, or "
            "a number beyond float32.",
        )
    if rate is not None and abs(rate) * evidence["largest_gradient"] > limit / 2:
        return (
            "learning rate so large that the update overflows",
            True,
            f"Lower the learning rate ({rate:.3g}), or clip the gradients with "
            "`global_clipnorm=1.0`; look at why the gradient is "
            f"{evidence['largest_gradient']:.3g}.",
        )
    zeros = gradient is not None and bool((gradient == 0).any())
    if getattr(twin, "epsilon", None) == 0 and zeros:
        return (
            "division of zero by zero in the optimizer: epsilon is 0",
            True,
            "Give the optimizer its usual epsilon, 1e-7.",
        )
    return (
        "the optimizer's arithmetic overflows",
        False,
        "Lower the learning rate, and clip the gradients with `global_clipnorm=1.0`.",
    )


def _broken_state(
    twin: Any, optimizer: Any, given: Mapping[str, Any], stepped: list[Any]
) -> Update | None:
    """Looks at momenta and squares: once infinite, the weight never moves again."""
    own = {id(v) for v in stepped}
    names = list(given)
    for variable in twin.variables:
        after = floats(variable.value)
        if id(variable) in own or after is None or not is_bad(after):
            continue
        like = [
            place
            for place, stand in enumerate(stepped)
            if stand.path.replace("/", "_") in variable.path
        ]
        address = names[like[0]] if like else variable.path
        evidence = counts(after) | {
            "state": variable.path,
            "dtype": str(variable.dtype),
            "optimizer": type(optimizer).__name__,
            "largest_gradient": largest(floats(given.get(address))),
        }
        return Update(
            address,
            "the optimizer's state overflows, as does the square of a huge gradient",
            True,
            "Clip the gradients with `global_clipnorm=1.0`; once its state is "
            "infinite the optimizer does not move this weight any more.",
            evidence,
        )
    return None


def _copy(variable: Any) -> Any:
    value = keras.ops.convert_to_numpy(variable.value)
    twin = keras.Variable(
        value, dtype=variable.dtype, trainable=variable.trainable, name=variable.name
    )
    set_variable_path(twin, variable.path)
    if hasattr(variable, "overwrite_with_gradient"):
        twin.overwrite_with_gradient = variable.overwrite_with_gradient
    return twin


def _twin(optimizer: Any, variables: list[Any]) -> Any:
    """Returns an optimizer of its own, with the same settings and the same state."""
    # Not `copy.copy`: Keras would save the optimizer, and load it.
    asked = object.__new__(type(optimizer))
    asked.__dict__.update(optimizer.__dict__)
    rate = learning_rate_of(optimizer)
    schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    if schedule:  # its class may have no config, and Keras may not know it
        set_learning_rate(asked, keras.ops.convert_to_tensor(1.0))
    config = asked.get_config()
    twin = type(optimizer).from_config(config | ({_RATE: rate} if schedule else {}))
    twin.loss_scale_factor = None  # the gradients are unscaled
    twin.build(variables)
    if optimizer.built:
        for mine, theirs in zip(twin.variables, optimizer.variables, strict=True):
            mine.assign(keras.ops.convert_to_numpy(theirs.value))
    return twin
