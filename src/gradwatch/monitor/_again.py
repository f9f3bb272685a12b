"""Makes the latest steps of a training once more, to find the one that broke it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backends import current, fresh_train_function
from ..engine import array_of, untouched
from ..select import walk
from ._lookback import Lookback, Stretch, copied, finite


@dataclass(frozen=True)
class Offence:
    """The step that broke a training.

    Attributes:
        step: Its number.
        batch: What it was made on.
        values: What all variables were before it.
        chance: The random state of the framework before it.
        proved: Whether it did so again; otherwise it is the step that was recorded.
    """

    step: int
    batch: Any
    values: list[NDArray[Any]]
    chance: list[NDArray[Any]]
    proved: bool


@contextlib.contextmanager
def as_it_was(model: Any, variables: Sequence[Any]) -> Iterator[None]:
    """Inside, the variables may be set to anything; they come back as they were."""
    current().synchronise(model)
    now = copied(variables)
    with untouched(walk(model)):
        try:
            yield
        finally:
            assign(variables, now)


def assign(variables: Sequence[Any], values: Sequence[NDArray[Any]]) -> None:
    """Sets variables."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def find_offence(
    model: Any, lookback: Lookback, recorded: int | None
) -> Offence | None:
    """Makes the steps again from the last copy of the weights, inside `as_it_was`.

    Args:
        model: The model, without its taps.
        lookback: What is remembered.
        recorded: A step that is known to be broken; None if it is only known that the
            weights now are.

    Returns:
        The first step after which a weight or the loss is not finite; or the recorded
        one, if that comes first; or None, if it is not among those remembered.
    """
    stretch = _stretch(lookback, recorded)
    if stretch is None:
        return None
    variables, weights = lookback.variables, len(model.variables)
    assign(variables, [_start(stretch, variable) for variable in variables])
    function = fresh_train_function(model)
    known = {id(variable): variable for variable in variables}
    for place, batch in enumerate(stretch.batches):
        step, chance = stretch.start + place, stretch.chances[place]
        for variable, rate in stretch.rates.get(place, {}).items():
            known[variable].assign(rate)
        before = copied(variables)
        current().set_random_state(chance)
        logs = current().watching.one_step(model, function, batch)
        broke = not finite(copied(variables[:weights])) or not _is_finite(logs)
        if broke or step == recorded:
            return Offence(step, batch, before, chance, broke)
    return None


def _start(stretch: Stretch, variable: Any) -> NDArray[Any]:
    """What a variable was; one that the optimizer made since began at zero."""
    value = stretch.values.get(id(variable))
    return np.zeros_like(array_of(variable)) if value is None else value


def _stretch(lookback: Lookback, recorded: int | None) -> Stretch | None:
    """The latest copy of the weights that is from before the step."""
    for stretch in reversed(lookback.stretches):
        if recorded is None or stretch.start <= recorded:
            return stretch
    return None


def _is_finite(logs: Any) -> bool:
    loss = logs.get("loss") if isinstance(logs, dict) else None
    try:
        return loss is None or math.isfinite(float(loss))
    except (TypeError, ValueError):
        return True  # a metric of the user's own, which is no number
