"""From a place to its cause: by the very operation, or by what fits the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine import Entry
from ...targets import Loss
from ._added import broken_addition, watch_activity, watch_penalty
from ._causes import Cause, of_derivative, of_operation, overflow
from ._numbers import LIMITS, described, dtype_of, floats, largest
from ._places import Pass, dense, is_output
from ._replay import watch_layer, watch_target
from ._suspects import Lookout


def of_activation(looked: Pass, entry: Entry) -> Cause:
    """Finds why something came out of a layer, or went into it, that is not finite."""
    if entry.leaf.at == "input":
        cast = _by_cast(looked, entry)
        if cast is not None:
            return cast
        layer = looked.around(entry.leaf.address)
    else:
        layer = looked.layer(entry.leaf.address)
    return of_call(looked, layer, inputs_of(looked, entry))


def of_call(looked: Pass, layer: Any, inputs: list[dict[str, Any]]) -> Cause:
    """Finds why the `call` of a layer gives something that is not finite."""
    seen = watch_layer(looked.tree, looked.parts["x"], layer, until_bad=True)
    if seen.forward() is None:
        # What it returned was finite: the trouble is in what it gave to another layer.
        seen = watch_layer(looked.tree, looked.parts["x"], layer, until_bad=False)
    return _forward(seen, layer, inputs)


def of_loss(looked: Pass) -> tuple[Cause, str | None]:
    """Finds why the loss of finite outputs is not finite.

    Returns:
        The cause; and who added it to the loss, "" for the model itself, None if it is
        no addition.
    """
    added = None
    if isinstance(looked.target, Loss):
        added = broken_addition(looked)
    if added is not None:
        address, seen = added
        layer = None
        if address not in looked.tree.weights:
            layer = looked.layer(address)
        return _forward(seen, layer, []), address
    seen = watch_target(looked.tree, looked.parts, looked.target)
    outputs = looked.captured.outputs.values()
    inputs = [
        described(a, dtype_of(t)) for t in outputs if (a := floats(t)) is not None
    ]
    return _forward(seen, None, inputs), None


def of_gradient(looked: Pass, entry: Entry) -> Cause:
    """Finds why a gradient is not finite where all that comes before it is."""
    leaf = entry.leaf
    if entry.kind == "weight":
        # What comes back to its layer is finite, so that it may well be the penalty.
        penalty = watch_penalty(looked, leaf.address)
        if penalty.backward() is not None:
            return _backward(looked, penalty, entry)
        layer = looked.layer(looked.tree.weights[leaf.address].layer)
    elif leaf.at == "input":
        layer = looked.layer(leaf.address)
    elif is_output(looked, entry):
        return _backward(looked, watch_target(*_target(looked)), entry)
    else:
        layer = looked.around(leaf.address)
    seen = watch_layer(looked.tree, looked.parts["x"], layer, until_bad=False)
    if seen.backward() is None and layer is not looked.tree.model:
        address = leaf.address
        if entry.kind == "weight":
            address = looked.tree.weights[address].layer
        seen = watch_activity(looked, address)
    return _backward(looked, seen, entry)


def inputs_of(looked: Pass, entry: Entry) -> list[dict[str, Any]]:
    """Describes what went into the layer call that an activation came out of."""
    leaf = entry.leaf
    return [
        described(array, event.dtype)
        for event in looked.events
        if event.leaf.at == "input"
        and (event.leaf.address, event.leaf.call) == (leaf.address, leaf.call)
        and (array := floats(event.value)) is not None
    ]


def _target(looked: Pass) -> tuple[Any, Any, Any]:
    return looked.tree, looked.parts, looked.target


def _by_cast(looked: Pass, entry: Entry) -> Cause | None:
    """Whether an input is infinite only because the layer computes in half precision.

    Keras casts before `call`; so the same numbers must be there in a wider dtype.
    """
    value, limit = floats(entry.value), LIMITS.get(entry.dtype, np.inf)
    if value is None or entry.dtype not in ("float16", "bfloat16"):
        return None
    earlier = looked.events[: looked.events.index(entry)]
    wider = [(e.dtype, floats(e.value)) for e in earlier]
    leaves = [e for e in looked.captured.entries if e.kind == "input"]
    wider += [(e.dtype, floats(e.value)) for e in leaves]
    for dtype, array in reversed(wider):
        if array is None or array.shape != value.shape or dtype == entry.dtype:
            continue
        if np.array_equal(np.isinf(value), np.abs(array) > limit):
            words, advice = overflow(entry.dtype, " where the layer casts its input")
            inputs = [described(array, dtype)]
            return Cause(words, True, advice, {"operation": "cast", "inputs": inputs})
    return None


def _forward(seen: Lookout, layer: Any, inputs: list[dict[str, Any]]) -> Cause:
    suspect = seen.forward()
    if suspect is not None:
        return of_operation(suspect)
    return _guess(layer, inputs)


def _guess(layer: Any, inputs: list[dict[str, Any]]) -> Cause:
    """Lists what fits the numbers, where no operation could be watched."""
    dtype = inputs[0]["dtype"] if inputs else str(getattr(layer, "compute_dtype", ""))
    limit = LIMITS.get(dtype, LIMITS["float32"])
    ends = [abs(part[key] or 0) for part in inputs for key in ("min", "max")]
    fits = []
    if any(part["zeros"] for part in inputs):
        fits.append("log of zero or division by zero (its inputs hold exact zeros)")
    if any(part["negative"] for part in inputs):
        fits.append("log, square root or power of a negative number")
    if max(ends, default=0.0) > float(np.log(limit)):
        fits.append("overflow of exp")
    if max(ends, default=0.0) ** 2 > limit or dtype == "float16":
        fits.append(overflow(dtype)[0])
    kind = type(layer).__name__ if layer is not None else "the loss"
    advice = (
        f"Look into `{kind}`: its operations could not be watched one by one, as "
        "inside a compiled function. Run it without compilation to learn more."
    )
    words = "; or ".join(fits) or f"an operation inside {kind}"
    return Cause(words, False, advice, {"inputs": inputs, "dtype": dtype})


def _backward(looked: Pass, seen: Lookout, entry: Entry) -> Cause:
    suspect = seen.backward()
    if suspect is not None:
        return of_derivative(suspect)
    leaf = entry.leaf
    arrived = [
        largest(dense(event.gradient))
        for event in looked.events
        if event.leaf.address == leaf.address and event.leaf.at == "output"
    ]
    values = [largest(floats(event.value)) for event in looked.events]
    dtype = entry.dtype
    if entry.kind == "weight":
        layer = looked.layer(looked.tree.weights[leaf.address].layer)
        dtype = str(getattr(layer, "compute_dtype", dtype))
    words, advice = overflow(dtype, " in the backward pass")
    if dtype == "float16":
        advice += _scaling(looked)
    evidence = {
        "dtype": dtype,
        "largest_gradient_arriving": max(arrived, default=None),
        "largest_activation": max(values, default=0.0),
    }
    return Cause(words, False, advice, evidence)


def _scaling(looked: Pass) -> str:
    optimizer = getattr(looked.tree.model, "optimizer", None)
    if hasattr(optimizer, "dynamic_scale"):
        return (
            " The LossScaleOptimizer skips such a step and halves its scale: once in a "
            "while that is as it should be."
        )
    return ""
