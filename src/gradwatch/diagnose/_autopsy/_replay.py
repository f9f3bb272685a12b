"""Second passes, in which the operations of one layer, or of the loss, are watched."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from ..._keras import added_loss_ids, mode_arguments
from ..._shadow import Shadows
from ...backends import current
from ...engine import specifications, untouched
from ...targets import Setting, prepared_loss
from ._arrays import is_bad
from ._operations import OperationLog
from ._pass import Pass


class _Enough(BaseException):
    """Ends the pass. Keras catches `Exception` to add to its message."""


def _quietly() -> contextlib.suppress:
    """Ignores failures inside: less is known then, but the first pass stands."""
    return contextlib.suppress(Exception, _Enough)


@contextlib.contextmanager
def _replaying(examined: Pass) -> Iterator[Any]:
    """Yields a scope of state: what is assigned inside reaches no variable."""
    with untouched(examined.tree):
        values = [(v, keras.ops.copy(v.value)) for v in examined.tree.model.variables]
        with keras.StatelessScope(values, True, False) as scope:
            yield scope


def _call(examined: Pass) -> Any:
    """Calls the model as a training step does."""
    return examined.tree.model(
        examined.captured.parts["x"], **mode_arguments(examined.tree.model, True)
    )


def watch_layer(examined: Pass, layer: Any, *, until_bad: bool) -> OperationLog:
    """Runs forward, and watches each operation inside one layer.

    Args:
        examined: The pass to repeat.
        layer: The layer; the model itself for what its own `call` does.
        until_bad: Watch only the first call whose result is not finite, and stop
            there; otherwise all calls.

    Returns:
        The suspicious operations; none if the layer cannot be watched.
    """
    log = OperationLog()
    with _quietly(), _replaying(examined) as scope, Shadows() as shadows:

        def call(inner: Any, *args: Any, **kwargs: Any) -> Any:
            # Each call is made twice: plainly, to learn what comes out, and then
            # traced, from the same state and random seeds, so that dropout drops the
            # same. After that the state is that of one call.
            before, chance = dict(scope.state_mapping), current().random_state()
            outputs = inner(*args, **kwargs)
            leaves = keras.tree.flatten((args, kwargs))
            symbolic = any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)
            if symbolic or (until_bad and not any(map(is_bad, _tensors(outputs)))):
                return outputs
            after, later = dict(scope.state_mapping), current().random_state()
            _set(scope, before)
            current().set_random_state(chance)
            current().traced(lambda: _tensors(inner(*args, **kwargs)), log)
            _set(scope, after)
            current().set_random_state(later)
            if until_bad:
                raise _Enough
            return outputs

        shadows.put(layer, "call", call)
        _call(examined)
    return log


def watch_target(examined: Pass) -> OperationLog:
    """Runs forward, and watches each operation of the loss."""
    log = OperationLog()
    model, parts = examined.tree.model, examined.captured.parts
    with _quietly(), _replaying(examined):
        outputs = _call(examined)
        x, y = parts["x"], parts["y"]
        size = int(keras.tree.flatten(x)[0].shape[0])
        setting = Setting(model, x, y, outputs, size, True, parts["arrays"])
        specs = specifications((y, outputs))
        with prepared_loss(model, examined.target, specs[0], lambda: specs[1]):
            current().traced(lambda: [examined.target.value(setting)], log)
    return log


def watch_penalty(examined: Pass, address: str, *, of_weight: bool) -> OperationLog:
    """Watches the regulariser of a weight, or of what a layer puts out."""
    if of_weight:
        variable = examined.tree.weights[address].variable
        penalty, tensors = getattr(variable, "regularizer", None), [variable.value]
    else:
        penalty = getattr(examined.layer(address), "activity_regularizer", None)
        tensors = [e.value for e in examined.outputs_of(address)]
    log = OperationLog()
    if penalty is not None:
        with _quietly(), untouched(examined.tree):
            current().traced(lambda: [penalty(tensor) for tensor in tensors], log)
    return log


def broken_addition(examined: Pass) -> tuple[str, OperationLog] | None:
    """Returns who adds what is not finite to the loss, and its operations.

    Returns:
        The address of a layer, "" for the model itself, or that of a weight whose
        regulariser it is; None if all that is added is finite.
    """
    adding: list[str] = []
    with _quietly(), _replaying(examined) as scope:
        _call(examined)
        broken = {id(loss) for loss in scope.losses if is_bad(loss)}
        everyone = [*examined.tree.layers, ""]
        adding += [a for a in everyone if broken & added_loss_ids(examined.layer(a))]
    for address in adding[:1]:
        log = watch_layer(examined, examined.layer(address), until_bad=False)
        if log.forward() is None:
            log = watch_penalty(examined, address, of_weight=False)
        return address, log
    for address, node in examined.tree.weights.items():
        log = watch_penalty(examined, address, of_weight=True)
        if node.trainable and log.forward() is not None:
            return address, log
    return None


def broken_state(examined: Pass) -> tuple[str, Any] | None:
    """Returns the first weight that the forward pass breaks, and its new value.

    A moving average, mostly: its variance overflows where the outputs do not.
    """
    with _quietly(), _replaying(examined) as scope:
        _call(examined)
        for address, node in examined.tree.weights.items():
            value = scope.get_current_value(node.variable)
            if not node.trainable and is_bad(value):
                return address, value
    return None


def _set(scope: Any, mapping: dict[int, Any]) -> None:
    scope.state_mapping.clear()
    scope.state_mapping.update(mapping)


def _tensors(structure: Any) -> list[Any]:
    return [t for t in keras.tree.flatten(structure) if keras.ops.is_tensor(t)]
