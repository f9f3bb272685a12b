"""The search for the first value that is not finite, in the order of causality.

One pass forward and one back have been run, with a tap on everything, and nothing in
it was stopped by a NaN. So the question is which of the broken values came first:

1. The data, then the weights: they were there before the pass. A broken one breaks
   what follows, but not always; a note says how far it goes.
2. The forward pass, in order of execution: what went into each layer and what came out
   of it, then the outputs of the model, then the loss.
3. The state that the forward pass sets, such as moving averages. It is looked at after
   the loss, because it can break without the loss breaking.
4. The backward pass, in reverse order of execution. A gradient that no weight depends
   on is reported as a note only: training does not see it.
5. The update, on copies of the weights and of the optimizer.

The first step that has an answer ends the search. Only then is the cause looked for,
by a second pass in which the operations of one layer, or of the loss, are watched one
by one. All of it runs on the thread of the caller; no variable is assigned.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..._keras import inner_optimizer
from ...engine import dense, untouched
from ...targets import Loss
from . import _explain as explain
from ._arrays import counts, dtype_of, is_bad
from ._causes import Cause
from ._pass import Pass
from ._replay import broken_state
from ._result import Autopsy
from ._update import broken_update


def search(examined: Pass, x: Any, weights_name: str) -> Autopsy:
    """Returns the first value that is not finite, and its cause.

    Args:
        examined: The pass.
        x: The inputs as the caller gave them.
        weights_name: The argument that the weights of the examples came from.
    """
    notes: list[str] = []
    return (
        _data(examined, x, weights_name)
        or _weights(examined)
        or _forward(examined)
        or _state(examined)
        or _backward(examined, notes)
        or _update(examined, notes)
        or Autopsy(False, evidence=examined.magnitudes(), notes=tuple(notes))
    )


def _data(examined: Pass, x: Any, weights_name: str) -> Autopsy | None:
    for name, tensor in examined.data(weights_name):
        if not is_bad(tensor):
            continue
        words = "NaN" if counts(tensor)["nan"] else "infinity"
        cause = Cause(
            f"{words} in the data",
            f"Look at `{name}` before it goes into `fit`: drop or fill these.",
        )
        given = [a for a in keras.tree.flatten(x) if isinstance(a, np.ndarray)]
        if name.startswith("x") and given and all(np.isfinite(a).all() for a in given):
            cause = Cause(
                f"numbers in the data beyond {dtype_of(tensor)}",
                f"Scale `{name}`: it becomes infinite when it is converted.",
            )
        return _result(("input", name, "data"), cause, tensor, _reach(examined))
    return None


def _weights(examined: Pass) -> Autopsy | None:
    for name, variable in examined.captured.weights.items():
        if is_bad(variable.value):
            cause = Cause(
                "the weight was not finite before the step",
                "An earlier step, or what was loaded, broke it. Load weights from "
                "before it, and ask again with the batch of that step.",
            )
            what = ("weight", name, None)
            return _result(what, cause, variable.value, _reach(examined))
    return None


def _reach(examined: Pass) -> str:
    """Says how far a value goes that was broken before the pass."""
    entry = examined.first_activation()
    if entry is not None:
        return f"From there it goes on to `{entry.name}`."
    if is_bad(examined.captured.value) or examined.first_output():
        return "From there it goes on to the loss."
    if examined.backward and examined.broken_weights:
        return "The forward pass stays finite, but the gradients do not."
    return "The pass itself stays finite: these numbers are not used, or caught."


def _forward(examined: Pass) -> Autopsy | None:
    model = examined.tree.model.name
    entry = examined.first_activation()
    if entry is not None:
        cause = explain.of_activation(examined, entry)
        inputs = explain.inputs_of(examined, entry)
        note, address = "", entry.leaf.address
        if entry.leaf.at == "input":
            caller = examined.tree.layers[address].parent or model
            note = f"It arises in {caller!r}, before it calls `{address}`."
        what = ("activation", entry.name, "forward")
        known = {"inputs_finite": True, "inputs": inputs}
        return _result(what, cause, entry.value, note, **known)
    output = examined.first_output()
    if output is not None:
        cause = explain.of_call(examined, examined.tree.model)
        note = f"It arises in the `call` of {model!r} itself."
        return _result(("activation", output[0], "forward"), cause, output[1], note)
    value = examined.captured.value
    if examined.backward and is_bad(value):
        cause, adds = explain.of_loss(examined)
        name = "loss" if isinstance(examined.target, Loss) else "target"
        note = f"The `call` of {model!r} itself adds it." if adds == "" else ""
        return _result(("loss", adds or name, "forward"), cause, value, note)
    return None


def _state(examined: Pass) -> Autopsy | None:
    broken = broken_state(examined)
    if broken is None:
        return None
    address, value = broken
    layer = examined.layer(examined.tree.weights[address].layer)
    note = "The pass itself stays finite: it shows when the model is evaluated."
    cause = explain.of_call(examined, layer)
    return _result(("weight", address, "forward"), cause, value, note)


def _backward(examined: Pass, notes: list[str]) -> Autopsy | None:
    entry = examined.first_gradient() if examined.backward else None
    if entry is None:
        return None
    trains = any(node.trainable for node in examined.tree.weights.values())
    if trains and not examined.broken_weights:
        notes.append(
            f"The gradient at `{entry.name}` is not finite, but that of no weight "
            "depends on it: training does not see it."
        )
        return None
    name, note = entry.name, ""
    if entry.kind == "activation" and entry.leaf.at == "input":
        name = entry.name.partition(":input")[0]
    elif entry.kind == "activation":
        after = "the loss"
        if not examined.is_output(entry):
            after = f"the `call` of {examined.around(entry.leaf.address).name!r}"
        note = f"It arises in {after}, and arrives at the output of `{name}`."
    where = "weight gradient" if entry.kind == "weight" else "activation gradient"
    cause = explain.of_gradient(examined, entry)
    return _result((where, name, "backward"), cause, entry.gradient, note)


def _update(examined: Pass, notes: list[str]) -> Autopsy | None:
    optimizer = getattr(examined.tree.model, "optimizer", None)
    if optimizer is None or not isinstance(examined.target, Loss):
        return None
    gradients = {
        e.leaf.address: dense(e.gradient)
        for e in examined.captured.entries
        if e.kind == "weight" and e.gradient is not None
    }
    nodes = examined.tree.weights.items()
    variables = {name: node.variable for name, node in nodes if node.trainable}
    try:
        with untouched(examined.tree):
            broken = broken_update(optimizer, gradients, variables)
    except Exception as error:  # noqa: BLE001 - a user's optimizer may not be copied
        notes.append(
            f"The update was not looked at: {type(optimizer).__name__} could not be "
            f"copied ({type(error).__name__})."
        )
        return None
    if broken is None:
        return None
    name = type(inner_optimizer(optimizer)).__name__
    return _result(("update", broken[0], "update"), broken[1], None, optimizer=name)


def _result(
    what: tuple[str, str, str | None],
    cause: Cause,
    tensor: Any,
    note: str = "",
    **known: Any,
) -> Autopsy:
    """Returns the result of a search.

    Args:
        what: Where it is, its address and its direction.
        cause: Its cause.
        tensor: The tensor that is not finite; None adds nothing to the evidence.
        note: A remark.
        **known: Evidence beside that of the cause.
    """
    evidence = counts(tensor)
    if tensor is not None:
        evidence["dtype"] = dtype_of(tensor)
    evidence |= known | dict(cause.evidence)
    notes = (note,) if note else ()
    words, advice, _, sure = cause
    return Autopsy(True, *what, words, sure, evidence, advice, notes)
