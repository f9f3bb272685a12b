"""What a pass leaves beside its outputs: additions to the loss, and new state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._keras import added_loss_ids
from ...backends import current
from ...engine import untouched
from ._numbers import floats, is_bad
from ._places import Pass
from ._replay import quietly, run, values_of, watch_layer
from ._suspects import Lookout


def broken_addition(looked: Pass) -> tuple[str, Lookout] | None:
    """Returns who adds what is not finite to the loss, and its operations.

    Returns:
        The address of a layer, "" for the model itself, or that of a weight whose
        regulariser it is; None if all that is added is finite.
    """
    for address in _adding(looked):
        layer = looked.layer(address)
        seen = watch_layer(looked.tree, looked.parts["x"], layer, until_bad=False)
        if seen.forward() is None:
            seen = watch_activity(looked, address)
        return address, seen
    for address, node in looked.tree.weights.items():
        seen = watch_penalty(looked, address)
        if node.trainable and seen.forward() is not None:
            return address, seen
    return None


def watch_activity(looked: Pass, address: str) -> Lookout:
    """Watches the regulariser of what a layer puts out."""
    penalty = getattr(looked.layer(address), "activity_regularizer", None)
    outputs = [
        event.value
        for event in looked.events
        if event.leaf.address == address and event.leaf.at == "output"
    ]
    return _watched(looked, penalty, outputs)


def watch_penalty(looked: Pass, address: str) -> Lookout:
    """Watches the regulariser of a weight."""
    variable = looked.tree.weights[address].variable
    penalty = getattr(variable, "regularizer", None)
    return _watched(looked, penalty, [variable.value])


def _watched(
    looked: Pass, penalty: Callable[[Any], Any] | None, tensors: list[Any]
) -> Lookout:
    seen = Lookout()
    if penalty is not None:
        with quietly(), untouched(looked.tree):
            current().traced(lambda: [penalty(tensor) for tensor in tensors], seen)
    return seen


def _adding(looked: Pass) -> list[str]:
    """Returns the layers of whose own losses some are not finite."""
    model: Any = looked.tree.model
    found: list[str] = []
    with quietly(), untouched(looked.tree), values_of(model) as scope:
        run(model, looked.parts["x"])
        broken = {id(loss) for loss in scope.losses if is_bad(floats(loss))}
        everyone = [*looked.tree.layers, ""]
        found += [a for a in everyone if broken & added_loss_ids(looked.layer(a))]
    return found


def broken_state(looked: Pass) -> tuple[str, Any] | None:
    """Returns the first weight that the forward pass breaks, and what it becomes.

    A moving average, mostly: its variance overflows where the outputs do not.
    """
    model: Any = looked.tree.model
    with quietly(), untouched(looked.tree), values_of(model) as scope:
        run(model, looked.parts["x"])
        for address, node in looked.tree.weights.items():
            value = scope.get_current_value(node.variable)
            if not node.trainable and is_bad(floats(value)):
                return address, value
    return None
