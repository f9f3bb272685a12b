"""A batch: what the caller gave, checked and made into tensors."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from .._errors import GradwatchError
from ..targets import Loss as LossTarget
from ..targets import Target, has_loss, needs_labels


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that varies from call to call, as one flat list and its shape."""

    tensors: list[Any]
    structure: Any
    size: int

    @property
    def signature(self) -> Hashable:
        """Batches of equal signature run through one compiled pass."""
        dtypes = tuple((tuple(t.shape), str(t.dtype)) for t in self.tensors)
        return (repr(self.structure), dtypes)

    def unflatten(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """Returns the parts of the batch with other tensors in their places."""
        parts: dict[str, Any] = keras.tree.map_structure(
            lambda place: None if place is None else tensors[place], self.structure
        )
        return parts


def make_batch(model: keras.Layer, x: Any, y: Any, target: Target, scale: Any) -> Batch:
    """Checks and converts what the caller gave.

    Raises:
        GradwatchError: When it cannot be a batch of this model.
    """
    x = _to_tensors(x, "x")
    size = batch_size(x, "x")
    _check_shapes(model, x)
    if y is not None:
        _refuse_needless_labels(target)
        y = _to_tensors(y, "y")
        labels = batch_size(y, "y")
        if labels != size:
            raise GradwatchError(
                "`y` must have one label per example of `x`. Received: "
                f"{labels} labels for {size} examples."
            )
    else:
        _require_labels(model, target)
    arrays = {
        name: _to_tensors(value, name) for name, value in target.arrays(y, size).items()
    }
    if scale is not None:
        scale = keras.ops.convert_to_tensor(scale, dtype="float32")
    parts = {"x": x, "y": y, "arrays": arrays, "scale": scale}
    tensors: list[Any] = []

    def stow(leaf: Any) -> int | None:
        if leaf is None:
            return None
        tensors.append(leaf)
        return len(tensors) - 1

    structure = keras.tree.map_structure(stow, parts)
    return Batch(tensors, structure, size)


def _to_tensors(value: Any, argument: str) -> Any:
    if isinstance(value, Iterator) or _is_dataset(value):
        raise GradwatchError(
            f"`{argument}` must be one batch of arrays. Received: "
            f"{type(value).__name__}, which gives many. Take one: "
            "`x, y = next(iter(dataset))`."
        )
    flat = keras.tree.flatten(value)
    if flat and all(isinstance(v, numbers.Number) for v in flat):
        value = np.asarray(value)
    return keras.tree.map_structure(lambda leaf: _tensor(leaf, argument), value)


def _is_dataset(value: Any) -> bool:
    if isinstance(value, keras.utils.PyDataset):
        return True
    return type(value).__module__.startswith(
        ("tensorflow.python.data", "torch.utils.data")
    )


def _tensor(leaf: Any, argument: str) -> Any:
    """Converts like `fit`: floating-point arrays become `floatx`."""
    if leaf is None:
        return None
    if isinstance(leaf, keras.KerasTensor):
        raise GradwatchError(
            f"`{argument}` must hold numbers. Received: the symbolic tensor "
            f"{leaf.name!r} of shape {leaf.shape}, which stands for data but has none. "
            "Pass a batch of arrays; the gradient at a layer inside the model is "
            "`wrt=gradwatch.activations(…)`."
        )
    if keras.ops.is_tensor(leaf):
        return leaf
    try:
        array = np.asarray(leaf)
    except Exception as error:
        raise GradwatchError(
            f"`{argument}` must hold arrays. Received: {type(leaf).__name__}, which "
            f"NumPy cannot read: {error}."
        ) from error
    if array.dtype.kind == "O":
        raise GradwatchError(
            f"`{argument}` must hold arrays of numbers. Received: "
            f"{type(leaf).__name__} with elements of mixed type or length. Make it a "
            "NumPy array of one dtype."
        )
    dtype = keras.config.floatx() if array.dtype.kind == "f" else None
    if array.dtype.kind == "f" and array.dtype.itemsize == 2:
        dtype = None
    return keras.ops.convert_to_tensor(array, dtype=dtype)


def batch_size(structure: Any, argument: str) -> int:
    """Returns the length of the first axis, which all tensors must share.

    Raises:
        GradwatchError: When there is no batch axis, no example, or no agreement.
    """
    tensors = [t for t in keras.tree.flatten(structure) if t is not None]
    if not tensors:
        raise GradwatchError(
            f"`{argument}` must hold at least one array. Received: {structure!r}."
        )
    sizes = set()
    for tensor in tensors:
        if len(tensor.shape) == 0:
            raise GradwatchError(
                f"`{argument}` must have a batch axis. Received: a single number. "
                f"Write `np.asarray([{argument}])` for a batch of one."
            )
        sizes.add(int(tensor.shape[0]))
    if len(sizes) > 1:
        raise GradwatchError(
            f"The arrays of `{argument}` must have the same number of examples. "
            f"Received: {sorted(sizes)}."
        )
    size = sizes.pop()
    if size == 0:
        raise GradwatchError(
            f"`{argument}` must have at least one example. Received: an empty batch of "
            f"shape {tuple(tensors[0].shape)}."
        )
    return size


def _check_shapes(model: Any, x: Any) -> None:
    """Says what a functional model expects before Keras raises from deep inside."""
    expected = getattr(model, "inputs", None)
    if not isinstance(expected, list):
        return
    given = keras.tree.flatten(x)
    if isinstance(x, dict):
        by_name = {spec.name: spec for spec in expected}
        if not set(by_name) <= set(x):
            return  # Keras knows more ways to match names
        given = [x[name] for name in by_name]
    if len(given) != len(expected):
        names = [spec.name for spec in expected]
        raise GradwatchError(
            f"`x` must hold the {len(expected)} inputs {names} of {model.name!r}. "
            f"Received: {len(given)}."
        )
    for tensor, spec in zip(given, expected, strict=True):
        shape = tuple(tensor.shape) if tensor is not None else None
        if shape is not None and not _fits(shape, tuple(spec.shape)):
            hint = ""
            if _fits(shape, tuple(spec.shape)[1:]):
                hint = " The batch axis is missing: pass `x[None]`."
            raise GradwatchError(
                f"`x` must have shape {tuple(spec.shape)} for input {spec.name!r} of "
                f"{model.name!r}. Received: {shape}.{hint}"
            )


def _fits(shape: tuple[int, ...], spec: tuple[int | None, ...]) -> bool:
    if len(shape) == len(spec):
        return all(s is None or s == d for d, s in zip(shape, spec, strict=True))
    # Keras itself adds or drops a last axis of length one.
    if len(shape) + 1 == len(spec) and spec[-1] == 1:
        return _fits(shape, spec[:-1])
    if len(shape) == len(spec) + 1 and shape[-1] == 1:
        return _fits(shape[:-1], spec)
    return False


def _refuse_needless_labels(target: Target) -> None:
    if not target.uses_labels:
        raise GradwatchError(
            f"`y` is used only by a loss. Received: `y` with the target {target}, "
            "which does not look at labels. Leave `y` out, or leave `target` out to "
            "differentiate the loss."
        )


def _require_labels(model: Any, target: Target) -> None:
    if isinstance(target, LossTarget):
        require_loss(model, target)
    if needs_labels(model, target):
        raise GradwatchError(
            f"`y` must hold the labels: the target is the {target} of {model.name!r}. "
            "Received: no `y`. Pass `gradients(model, x, y)`, or a target without "
            "labels such as `target=gradwatch.class_score(i)`."
        )


def require_loss(model: Any, target: LossTarget) -> None:
    """Raises when a model is asked for a loss that nobody gave it."""
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
