"""The gradient under another rule at rectifiers."""

from __future__ import annotations

from typing import Any

from .._errors import GradwatchError
from ._method import result
from ._problem import Problem
from ._result import Attribution


def rectified(
    rule: str, model: Any, x: Any, target: Any, layer: Any, batch_size: int | None
) -> Attribution:
    """Returns the gradient under the rule.

    Raises:
        GradwatchError: When the model has no rectifier.
    """
    problem = Problem(model, x, target, layer, rule=rule, batch_size=batch_size)
    scores, gradients, _ = problem.own()
    if not problem.ruled:
        raise GradwatchError(
            "`model` must have a rectifier (ReLU, leaky ReLU, ELU, GELU, SiLU, …), "
            f"whose gradient is changed. Received: {problem.model.name!r}, in which "
            "Keras met none. Functions that call the framework itself are not seen: "
            "use `keras.activations.relu` or `keras.ops.relu`."
        )
    return result(problem, gradients, scores, settings={"rectifiers": problem.ruled})
