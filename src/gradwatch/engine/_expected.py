"""Checks a batch against a model, before Keras raises from deep inside."""

from __future__ import annotations

from typing import Any

import keras

from .._errors import GradwatchError, arg, called_verb, counted
from .._keras import all_layers, input_structure, output_structure
from ..targets import Loss, Target, has_loss, needs_labels, num_losses


def symbolic_inputs(model: Any) -> list[Any] | None:
    """Returns the inputs that a functional model declares; None for other models."""
    specs = getattr(model, "inputs", None)
    return specs if isinstance(specs, list) else None


def takes_text(model: Any) -> bool:
    """Returns whether a model may take strings; only functional models declare it."""
    specs = symbolic_inputs(model)
    return specs is None or any(spec.dtype == "string" for spec in specs)


def single_input(model: Any, x: Any) -> Any:
    """Returns the only input of a functional model out of a dict, as Keras does."""
    spec: Any = input_structure(model)
    alone = isinstance(spec, keras.KerasTensor) and isinstance(x, dict)
    return x[spec.name] if alone and set(x) == {spec.name} else x


def check_inputs(model: Any, x: Any) -> None:
    """Compares a batch with the inputs of a functional model."""
    expected = symbolic_inputs(model)
    if expected is None:
        return
    arrays = keras.tree.flatten(x)
    if isinstance(x, dict):
        arrays = _by_key(model, x, expected)
    if len(arrays) != len(expected):
        names = [spec.name for spec in expected]
        hint = ""
        if isinstance(x, tuple | list):
            hint = " If these are `x` and `y`, pass them as two arguments."
        raise GradwatchError(
            f"{arg('x')} must hold the {counted(len(expected), 'input')} {names} of "
            f"{model.name!r}. Received: {counted(len(arrays), 'array')}.{hint}"
        )
    free = not fixed_batch(model)
    for tensor, spec in zip(arrays, expected, strict=True):
        shape = tuple(tensor.shape) if tensor is not None else None
        wanted = tuple(spec.shape)
        wanted = (None, *wanted[1:]) if free and wanted else wanted
        if shape is not None and not _fits(shape, wanted):
            hint = ""
            if _fits(shape, wanted[1:]):
                hint = " The batch axis is missing: pass `x[None]`."
            raise GradwatchError(
                f"{arg('x')} must have shape {wanted} for input {spec.name!r} of "
                f"{model.name!r}. Received: {shape}.{hint}"
            )


def fixed_batch(model: Any) -> bool:
    """Returns whether a model takes batches of one size only."""
    specs = symbolic_inputs(model) or ()
    if all(spec.shape[:1] in ((), (None,)) for spec in specs):
        return False
    if not isinstance(model, keras.Sequential):
        return True
    # Without an `Input` layer, Keras stores the first batch size but does not check
    # later batches against it.
    return any(getattr(part, "stateful", False) for part in all_layers(model))


def _by_key(model: Any, x: dict[str, Any], expected: list[Any]) -> list[Any]:
    """Returns the tensors of a dict in the order of the model's inputs."""
    structure = input_structure(model)
    as_dict = isinstance(structure, dict)
    wanted = list(structure) if as_dict else [spec.name for spec in expected]
    # Keras flattens the dict: one extra key would shift all that follow.
    if not set(wanted) <= set(x) or (as_dict and len(x) > len(wanted)):
        raise GradwatchError(
            f"{arg('x')} must have the keys {sorted(wanted)} of {model.name!r}. "
            f"Received: {sorted(x)}."
        )
    return list(keras.tree.flatten(x)) if as_dict else [x[name] for name in wanted]


def _fits(shape: tuple[int, ...], spec: tuple[int | None, ...]) -> bool:
    # Keras itself adds or drops a last axis of length one.
    if len(shape) + 1 == len(spec) and spec[-1] == 1:
        spec = spec[:-1]
    elif len(shape) == len(spec) + 1 and shape[-1] == 1:
        shape = shape[:-1]
    pairs = zip(shape, spec, strict=False)
    return len(shape) == len(spec) and all(s is None or s == d for d, s in pairs)


def check_labels(model: Any, y: Any, target: Target) -> None:
    """Rejects labels that the target does not use, and missing labels that it needs."""
    if y is not None and not target.uses_labels:
        raise GradwatchError(
            f"`y` is used only by a loss. Received: `y` with the target {target}, "
            f"which does not look at labels. Leave `y` out, or leave {arg('target')} "
            "out to differentiate the loss."
        )
    if y is None and needs_labels(model, target):
        raise GradwatchError(
            f"`y` must hold the labels: the target is {target} of {model.name!r}. "
            f"Received: no `y`. Pass `{called_verb()}(model, x, y)`, or a target "
            "without labels such as `target=gradwatch.class_score(i)`."
        )
    if y is not None:
        _check_structure(model, y, target)


def _check_structure(model: Any, y: Any, target: Target) -> None:
    """Compares labels with the outputs of a functional model."""
    names = getattr(model, "output_names", None)
    structure = output_structure(model)
    names = list(structure) if isinstance(structure, dict) else names
    if not isinstance(names, list):
        return
    if isinstance(y, dict) and not set(y) <= set(names):
        raise GradwatchError(
            f"`y` must have the keys {sorted(names)}, the outputs of {model.name!r}. "
            f"Received: {sorted(y)}."
        )
    count = len(keras.tree.flatten(y)) if keras.tree.is_nested(y) else 1
    if len(names) > 1 and count not in (len(names), num_losses(model, target)):
        raise GradwatchError(
            f"`y` must hold the labels of the {len(names)} outputs {names} of "
            f"{model.name!r}. Received: {counted(count, 'array')}. Pass a list or a "
            "dict of labels."
        )


def require_loss(model: Any, target: Loss) -> None:
    """Raises if the loss is requested of a model that has none."""
    if not isinstance(model, keras.Model):
        raise GradwatchError(
            "A loss needs a `keras.Model`. Received: "
            f"{type(model).__name__} {model.name!r}, a layer. Pass a target without a "
            "loss, such as `target=gradwatch.mean_output()`."
        )
    if target.function is None and not has_loss(model):
        raise GradwatchError(
            "The loss of a model is known once it is compiled. Received: "
            f"{model.name!r}, which is not. Pass `loss='mse'` (or another loss), a "
            "target such as `target=gradwatch.class_score(i)`, or call "
            "`model.compile(loss=…)`."
        )
