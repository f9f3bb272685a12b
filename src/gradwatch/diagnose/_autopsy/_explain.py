"""The cause of a value that is not finite: the very operation, or what fits best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from ...engine import Entry
from ...targets import Loss
from ._arrays import described, dtype_of, floats, largest, limit_of
from ._causes import Cause, of_derivative, of_operation, overflow
from ._operations import OperationLog
from ._pass import Pass
from ._replay import (
    broken_addition,
    watch_layer,
    watch_penalty,
    watch_target,
)


def of_activation(examined: Pass, entry: Entry) -> Cause:
    """Returns why something not finite came out of a layer, or went into it."""
    address, inputs = entry.leaf.address, inputs_of(examined, entry)
    if entry.leaf.at == "input":
        cast = _of_cast(examined, entry)
        return cast or of_call(examined, examined.around(address), inputs)
    return of_call(examined, examined.layer(address), inputs)


def of_call(examined: Pass, layer: Any, inputs: Sequence[Any] = ()) -> Cause:
    """Returns why the `call` of a layer gives something that is not finite."""
    log = watch_layer(examined, layer, until_bad=True)
    if log.forward() is None:
        # It returned finite numbers: the trouble is in what it gave to another layer.
        log = watch_layer(examined, layer, until_bad=False)
    return _forward(log, layer, inputs)


def of_loss(examined: Pass) -> tuple[Cause, str | None]:
    """Returns why the loss of finite outputs is not finite.

    Returns:
        The cause; and the address of what added it to the loss, "" for the model
        itself, None if it is no addition.
    """
    is_loss = isinstance(examined.target, Loss)
    addition = broken_addition(examined) if is_loss else None
    if addition is not None:
        address, log = addition
        of_weight = address in examined.tree.weights
        layer = None if of_weight else examined.layer(address)
        return _forward(log, layer, []), address
    outputs = [(t, dtype_of(t)) for t in examined.captured.outputs.values()]
    return _forward(watch_target(examined), None, _described(outputs)), None


def of_gradient(examined: Pass, entry: Entry) -> Cause:
    """Returns why a gradient is not finite where all that comes before it is."""
    owner = examined.owner(entry)
    if entry.kind == "weight":
        # What comes back to its layer is finite: it may well be the penalty.
        penalty = watch_penalty(examined, entry.leaf.address, of_weight=True)
        if penalty.backward() is not None:
            return _backward(examined, penalty, entry)
        layer = examined.layer(owner)
    elif entry.leaf.at == "input":
        layer = examined.layer(owner)
    elif examined.is_output(entry):
        return _backward(examined, watch_target(examined), entry)
    else:
        layer = examined.around(owner)
    log = watch_layer(examined, layer, until_bad=False)
    if log.backward() is None and layer is not examined.tree.model:
        log = watch_penalty(examined, owner, of_weight=False)
    return _backward(examined, log, entry)


def inputs_of(examined: Pass, entry: Entry) -> list[dict[str, Any]]:
    """Describes what went into the layer call that an activation came out of."""
    own = replace(entry.leaf, at="input", path="")
    entries = ((e, replace(e.leaf, path="")) for e in examined.activations)
    return _described((e.value, e.dtype) for e, leaf in entries if leaf == own)


def _described(tensors: Iterable[tuple[Any, str]]) -> list[dict[str, Any]]:
    """Describes the floating-point ones of some tensors, each given with its dtype."""
    arrays = ((floats(tensor), dtype) for tensor, dtype in tensors)
    return [described(array, dtype) for array, dtype in arrays if array is not None]


def _of_cast(examined: Pass, entry: Entry) -> Cause | None:
    """Returns the cast of a layer in half precision, if that made an input infinite.

    Keras casts before `call`; so the same numbers must be there in a wider dtype.
    """
    value = floats(entry.value)
    if value is None or entry.dtype not in ("float16", "bfloat16"):
        return None
    activations = examined.activations
    earlier = activations[: activations.index(entry)]
    inputs = [e for e in examined.captured.entries if e.kind == "input"]
    for wider in reversed([*earlier, *inputs]):
        array = floats(wider.value)
        if array is None or array.shape != value.shape or wider.dtype == entry.dtype:
            continue
        if np.array_equal(np.isinf(value), np.abs(array) > limit_of(entry.dtype)):
            words, advice = overflow(entry.dtype, " where the layer casts its input")
            evidence = {"operation": "cast", "inputs": [described(array, wider.dtype)]}
            return Cause(words, advice, evidence)
    return None


def _forward(log: OperationLog, layer: Any, inputs: Sequence[Any]) -> Cause:
    operation = log.forward()
    if operation is not None:
        return of_operation(operation)
    # No operation could be watched: list what fits the numbers.
    dtype = inputs[0]["dtype"] if inputs else str(getattr(layer, "compute_dtype", ""))
    limit = limit_of(dtype)
    ends = [abs(part[end] or 0) for part in inputs for end in ("min", "max")]
    size = max(ends, default=0.0)
    zeros, negative = (any(part[k] for part in inputs) for k in ("zeros", "negative"))
    fits = {
        "log of zero or division by zero (its inputs hold exact zeros)": zeros,
        "log, square root or power of a negative number": negative,
        "overflow of exp": size > float(np.log(limit)),
        overflow(dtype)[0]: size**2 > limit or dtype == "float16",
    }
    kind = type(layer).__name__ if layer is not None else "the loss"
    return Cause(
        "; or ".join(compress(fits, fits.values())) or f"an operation inside {kind}",
        f"Look into `{kind}`: its operations could not be watched one by one, as "
        "inside a compiled function. Run it without compilation to learn more.",
        {"inputs": [*inputs], "dtype": dtype},
        sure=False,
    )


def _backward(examined: Pass, log: OperationLog, entry: Entry) -> Cause:
    operation = log.backward()
    if operation is not None:
        return of_derivative(operation)
    dtype = entry.dtype
    if entry.kind == "weight":
        layer = examined.layer(examined.owner(entry))
        dtype = str(getattr(layer, "compute_dtype", dtype))
    words, advice = overflow(dtype, " in the backward pass")
    optimizer = getattr(examined.tree.model, "optimizer", None)
    if dtype == "float16" and hasattr(optimizer, "dynamic_scale"):
        advice += (
            " The LossScaleOptimizer skips such a step and halves its scale: once in a "
            "while that is as it should be."
        )
    arriving = [largest(e.gradient) for e in examined.outputs_of(entry.leaf.address)]
    values = [largest(e.value) for e in examined.activations]
    evidence = {
        "dtype": dtype,
        "largest_gradient_arriving": max(arriving, default=None),
        "largest_activation": max(values, default=0.0),
    }
    return Cause(words, advice, evidence, sure=False)
