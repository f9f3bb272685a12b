"""The search for what is not finite, in the order of causality."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ...backends import Sparse, current
from ...engine import Entry, untouched
from ...targets import Loss
from . import _places as places
from . import _why as why
from ._added import broken_state
from ._causes import Cause
from ._numbers import counts, dtype_of, floats, is_bad
from ._result import Autopsy
from ._update import broken_update


def search(looked: places.Pass, x: Any, weights_name: str) -> Autopsy:
    """Looks at everything in turn, until something is found.

    Args:
        looked: The pass.
        x: The inputs as the caller gave them.
        weights_name: The argument that the weights of the examples came from.
    """
    return (
        _data(looked, x, weights_name)
        or _weights(looked)
        or _forward(looked)
        or _state(looked)
        or (looked.backward and _backward(looked))
        or _update(looked)
        or Autopsy(False, evidence=places.magnitudes(looked))
    )


def _data(looked: places.Pass, x: Any, weights_name: str) -> Autopsy | None:
    for name, tensor in places.data(looked.parts, weights_name):
        array = floats(tensor)
        if array is None or not is_bad(array):
            continue
        evidence = counts(array) | {"dtype": dtype_of(tensor)}
        words = "NaN in the data" if evidence["nan"] else "infinity in the data"
        advice = f"Look at `{name}` before it goes into `fit`: drop or fill these."
        given = [a for a in keras.tree.flatten(x) if isinstance(a, np.ndarray)]
        if name.startswith("x") and given and all(np.isfinite(a).all() for a in given):
            words = f"numbers in the data beyond {evidence['dtype']}"
            advice = f"Scale `{name}`: it becomes infinite when it is converted."
        cause = Cause(words, True, advice, {})
        return _made("input", name, "data", cause, evidence, _reach(looked))
    return None


def _weights(looked: places.Pass) -> Autopsy | None:
    for name, variable in looked.captured.weights.items():
        array = floats(variable.value)
        if array is None or not is_bad(array):
            continue
        evidence = counts(array) | {"dtype": dtype_of(variable)}
        cause = Cause(
            "the weight was not finite before the step",
            True,
            "An earlier step, or what was loaded, broke it. Load weights from before "
            "it, and ask again with the batch of that step.",
            {},
        )
        return _made("weight", name, None, cause, evidence, _reach(looked))
    return None


def _reach(looked: places.Pass) -> str:
    """Says whether what was given broken breaks anything."""
    entry = places.first_activation(looked)
    if entry is not None:
        return f"From there it goes on to `{entry.name}`."
    if is_bad(floats(looked.captured.value)) or places.first_output(looked):
        return "From there it goes on to the loss."
    if looked.backward and places.bad_weights(looked):
        return "The forward pass stays finite, but the gradients do not."
    return "The pass itself stays finite: these numbers are not used, or caught."


def _forward(looked: places.Pass) -> Autopsy | None:
    entry = places.first_activation(looked)
    if entry is not None:
        array = floats(entry.value)
        cause = why.of_activation(looked, entry)
        evidence = counts(array) | {"dtype": entry.dtype, "inputs_finite": True}
        evidence["inputs"] = why.inputs_of(looked, entry)
        note = _in_own_call(looked, entry) if entry.leaf.at == "input" else ""
        return _made("activation", entry.name, "forward", cause, evidence, note)
    output = places.first_output(looked)
    if output is not None:
        name, tensor = output
        cause = why.of_call(looked, looked.tree.model, [])
        evidence = counts(floats(tensor)) | {"dtype": dtype_of(tensor)}
        note = f"It arises in the `call` of {looked.tree.model.name!r} itself."
        return _made("activation", name, "forward", cause, evidence, note)
    value = floats(looked.captured.value)
    if looked.backward and is_bad(value):
        name = "loss" if isinstance(looked.target, Loss) else "target"
        evidence = counts(value) | {"dtype": dtype_of(looked.captured.value)}
        cause, adds = why.of_loss(looked)
        note = ""
        if adds == "":
            note = f"The `call` of {looked.tree.model.name!r} itself adds it."
        return _made("loss", adds or name, "forward", cause, evidence, note)
    return None


def _state(looked: places.Pass) -> Autopsy | None:
    broken = broken_state(looked)
    if broken is None:
        return None
    address, value = broken
    layer = looked.layer(looked.tree.weights[address].layer)
    evidence = counts(floats(value)) | {"dtype": dtype_of(value)}
    cause = why.of_call(looked, layer, [])
    note = "The pass itself stays finite: it shows when the model is evaluated."
    return _made("weight", address, "forward", cause, evidence, note)


def _in_own_call(looked: places.Pass, entry: Entry) -> str:
    around = looked.tree.layers[entry.leaf.address].parent
    name = around or looked.tree.model.name
    return f"It arises in {name!r}, before it calls `{entry.leaf.address}`."


def _backward(looked: places.Pass) -> Autopsy | None:
    entry = places.first_gradient(looked)
    if entry is None:
        return None
    trains = any(node.trainable for node in looked.tree.weights.values())
    if trains and not places.bad_weights(looked):
        note = (
            f"The gradient at `{entry.name}` is not finite, but that of no weight "
            "depends on it: training does not see it."
        )
        return _update(looked) or Autopsy(
            False, evidence=places.magnitudes(looked), notes=(note,)
        )
    array = places.dense(entry.gradient)
    evidence = counts(array) | {"dtype": entry.dtype}
    cause = why.of_gradient(looked, entry)
    where = "weight gradient" if entry.kind == "weight" else "activation gradient"
    name, note = entry.name, ""
    if entry.kind == "activation" and entry.leaf.at == "input":
        name = entry.name.partition(":input")[0]
    elif entry.kind == "activation":
        after = "the loss"
        if not places.is_output(looked, entry):
            after = f"the `call` of {looked.around(entry.leaf.address).name!r}"
        note = f"It arises in {after}, and arrives at the output of `{name}`."
    return _made(where, name, "backward", cause, evidence, note)


def _update(looked: places.Pass) -> Autopsy | None:
    optimizer = getattr(looked.tree.model, "optimizer", None)
    if optimizer is None or not isinstance(looked.target, Loss):
        return None
    gradients = {
        e.leaf.address: current().dense(e.gradient)
        if isinstance(e.gradient, Sparse)
        else e.gradient
        for e in looked.captured.entries
        if e.kind == "weight" and e.gradient is not None
    }
    nodes = looked.tree.weights.items()
    variables = {name: node.variable for name, node in nodes if node.trainable}
    try:
        with untouched(looked.tree):
            found = broken_update(optimizer, gradients, variables)
    except Exception as error:  # noqa: BLE001 - a user's optimizer may not be copied
        note = (
            f"The update was not looked at: {type(optimizer).__name__} could not be "
            f"copied ({type(error).__name__})."
        )
        return Autopsy(False, evidence=places.magnitudes(looked), notes=(note,))
    if found is None:
        return None
    cause = Cause(found.cause, found.sure, found.try_first, {})
    return _made("update", found.address, "update", cause, found.evidence, "")


def _made(
    where: str,
    address: str,
    direction: str | None,
    cause: Cause,
    evidence: dict[str, Any],
    note: str,
) -> Autopsy:
    return Autopsy(
        True,
        where,
        address,
        direction,
        cause.words,
        cause.sure,
        evidence | cause.evidence,
        cause.try_first,
        (note,) if note else (),
    )
