"""The optimizer's step, on copies of the weights and of the optimizer."""

from __future__ import annotations

from collections.abc import Mapping
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
from ._arrays import counts, floats, is_bad, largest, limit_of
from ._causes import Cause


def broken_update(
    optimizer: Any, gradients: Mapping[str, Any], variables: Mapping[str, Any]
) -> tuple[str, Cause] | None:
    """Makes one step on copies, and returns the first weight that it breaks, and why.

    Args:
        optimizer: The optimizer; it is read, not used.
        gradients: Finite gradients by the address of their weight.
        variables: The weights by address.

    Raises:
        Exception: Whatever the optimizer raises when it is copied or used.
    """
    optimizer = inner_optimizer(optimizer)  # the gradients are unscaled
    known = variables_of(optimizer) if optimizer.built else []
    copies = {id(v): _copy(v) for v in known or variables.values()}
    twin = _twin(optimizer, list(copies.values()))
    spoilt = any(is_bad(v.value) for v in twin.variables if v.name != _RATE)
    own = {name: g for name, g in gradients.items() if id(variables[name]) in copies}
    if not own:
        return None
    stepped = {name: copies[id(variables[name])] for name in own}
    # Before the step: a schedule goes on to the next.
    rate = getattr(twin.learning_rate, "value", twin.learning_rate)
    rate = float(keras.ops.convert_to_numpy(rate))
    twin.apply(list(own.values()), list(stepped.values()))
    for name, variable in stepped.items():
        constraint = getattr(variables[name], "constraint", None)
        if is_bad(variable.value):
            evidence = {
                **counts(variable.value),
                # JSON has no number for one that is not finite.
                _RATE: rate if np.isfinite(rate) else str(rate),
                "largest_gradient": largest(own[name]),
                "largest_weight": largest(variables[name].value),
                "dtype": str(variable.dtype),
            }
            zeros = bool(np.any(floats(own[name]) == 0))
            cause = _cause(twin, rate, evidence, spoilt, zeros)
            return name, cause._replace(evidence=evidence)
        if constraint is not None and is_bad(bound := constraint(variable.value)):
            evidence = counts(bound) | {"largest_weight": largest(variable.value)}
            return name, Cause(
                "the constraint of the weight is not finite",
                "The updated weight itself is finite: look into its "
                "`kernel_constraint` or `bias_constraint` for a division by a norm of "
                "zero, and add 1e-7 there.",
                evidence,
            )
    if spoilt:
        return None  # this step has not done it
    return _broken_state(twin, own, stepped)


_RATE = "learning_rate"


def _cause(
    twin: Any, rate: float, evidence: Mapping[str, Any], spoilt: bool, zeros: bool
) -> Cause:
    """Returns why an updated weight is not finite, without the evidence."""
    gradient = evidence["largest_gradient"]
    if spoilt:
        return Cause(
            "the optimizer's state was not finite before the step",
            "An earlier step broke it: compile anew, or load the optimizer's state "
            "from before.",
        )
    if not np.isfinite(rate):
        return Cause(
            f"the learning rate is {rate}",
            "Look at what sets it: a schedule or a callback that divides by zero, or "
            "a number beyond float32.",
        )
    if abs(rate) * gradient > limit_of(evidence["dtype"]) / 2:
        return Cause(
            "learning rate so large that the update overflows",
            f"Lower the learning rate ({rate:.3g}), or clip the gradients with "
            f"`global_clipnorm=1.0`; look at why the gradient is {gradient:.3g}.",
        )
    if getattr(twin, "epsilon", None) == 0 and zeros:
        words = "division of zero by zero in the optimizer: epsilon is 0"
        return Cause(words, "Give the optimizer its usual epsilon, 1e-7.")
    return Cause(
        "the optimizer's arithmetic overflows",
        "Lower the learning rate, and clip the gradients with `global_clipnorm=1.0`.",
        sure=False,
    )


def _broken_state(
    twin: Any, gradients: Mapping[str, Any], stepped: Mapping[str, Any]
) -> tuple[str, Cause] | None:
    """Looks at momenta and squares: once infinite, the weight never moves again."""
    weights = {id(variable) for variable in stepped.values()}
    for state in twin.variables:
        if id(state) in weights or not is_bad(state.value):
            continue
        # Keras names the state of a weight after the path of the weight.
        paths = ((name, v.path.replace("/", "_")) for name, v in stepped.items())
        address = next((n for n, path in paths if path in state.path), state.path)
        evidence = {
            **counts(state.value),
            "state": state.path,
            "dtype": str(state.dtype),
            "largest_gradient": largest(gradients.get(address)),
        }
        return address, Cause(
            "the optimizer's state overflows, as does the square of a huge gradient",
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
