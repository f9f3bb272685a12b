"""The target: model outputs in, the number to differentiate out."""

from __future__ import annotations

import operator
import weakref
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np

from .._errors import TargetError, arg, counted, quoted
from .._keras import functional_of
from ..select import Activations

Tensor = Any


@dataclass(frozen=True, slots=True)
class Setting:
    """The data that a target may use: one forward pass of one model.

    `read` has the activations that the target reads, in the order of computation. With
    `or_one`, one number for the whole batch will do as well as one per example.
    """

    model: keras.Layer
    x: Any
    y: Any
    outputs: Any
    batch_size: int
    training: bool
    arrays: Mapping[str, Any] = field(default_factory=dict)
    read: Mapping[Any, Tensor] = field(default_factory=dict)
    or_one: bool = False


class Target(ABC):
    """The number to differentiate; made by `class_score`, `loss` and the like.

    Attributes:
        uses_labels: Whether the target needs `y`.
        training: The default mode of the forward pass.

    Example:
    >>> import gradwatch as gw
    >>> isinstance(gw.class_score(3), gw.Target)
    True
    """

    uses_labels: bool = False
    training: bool = False

    @property
    def reads(self) -> tuple[Activations, ...]:
        """Activations that the target is computed from, beside the outputs."""
        return ()

    def key(self) -> Hashable:
        """Returns a key; targets of equal keys can share a compiled pass."""
        return (type(self), *map(weakly, vars(self).values()))

    def kept(self) -> Any:
        """Returns the objects that the key identifies by `id`, to keep them alive."""
        return None

    def arrays(self, y: Any, batch_size: int) -> dict[str, Any]:
        """Returns the part of the target that changes from call to call, as data."""
        del y, batch_size
        return {}

    def check(self, outputs: Mapping[str, tuple[int, ...]]) -> None:
        """Raises a `TargetError` if outputs of these shapes have no such target."""
        del outputs

    def for_rows(self, rows: np.ndarray) -> Target:
        """Returns the target of a batch of these examples, some perhaps repeated."""
        del rows
        return self

    def value(self, setting: Setting) -> Tensor:
        """Computes the number to differentiate, by default the sum of the scores.

        The sum over the examples gives each example its own gradient with respect to
        its activations and inputs.
        """
        return keras.ops.sum(self.scores(replace(setting, or_one=True)))

    def scores(self, setting: Setting) -> Tensor:
        """Computes one number per example; a loss has none."""
        raise NotImplementedError

    @abstractmethod
    def __str__(self) -> str: ...


def require(fits: bool, rule: str, received: str, way_out: str = "") -> None:
    """Raises an error with rule, received and way out, unless the value fits."""
    if not fits:
        raise TargetError(f"{rule} Received: {received}. {way_out}".rstrip())


def weakly(function: Any) -> Hashable:
    """Returns a key for an object that does not keep it alive."""
    try:
        if hasattr(function, "__self__"):
            return weakref.WeakMethod(function)
        return weakref.ref(function)
    except TypeError:  # Built-in functions live forever anyway.
        return ("kept", function)


def whole_index(index: Any) -> tuple[int, ...]:
    """Returns an index as a tuple of whole numbers.

    Raises:
        TargetError: If it is something else.
    """
    positions = index if isinstance(index, tuple | list) else (index,)
    try:
        if any(isinstance(position, bool) for position in positions):
            raise TypeError
        return tuple(operator.index(position) for position in positions)
    except TypeError:
        raise TargetError(
            f"{arg('index')} must be whole numbers, one for each axis without the "
            f"batch axis. Received: {index!r}."
        ) from None


def require_inside(
    index: Sequence[int], shape: Sequence[int], where: str, *, whole: bool = False
) -> None:
    """Raises if an index is outside of the axes after the first.

    Args:
        index: One number for each axis, or for the first ones.
        shape: The shape, with the batch axis.
        where: What has this shape, for the message.
        whole: True if each axis must have its number.
    """
    inner = shape[1:]
    fits = len(index) == len(inner) if whole else len(index) <= len(inner)
    fits = fits and all(-n <= i < n for i, n in zip(index, inner, strict=False))
    rule = f"{arg('index')} must be a position in the output, without the batch axis."
    last = ", ".join(str(size - 1) for size in inner)
    received = f"{index} for {where} of shape {shape}"
    require(fits, rule, received, f"Its last neuron is ({last}).")


def named_outputs(model: Any, outputs: Any) -> dict[str, Tensor]:
    """Names each output tensor: by its key, its name in the graph, or its index."""
    names: Any = getattr(functional_of(model) or model, "output_names", None)
    names = names if isinstance(names, list) else []
    if not keras.tree.is_nested(outputs):
        return {names[0] if len(names) == 1 else "output": outputs}
    flat = keras.tree.flatten_with_path(outputs)
    from_graph = len(names) == len(flat) == len(set(names))
    if isinstance(outputs, dict) or not from_graph:
        names = ["/".join(str(part) for part in path) for path, _ in flat]
    named = {name: tensor for name, (_, tensor) in zip(names, flat, strict=True)}
    return {n: tensor for n, tensor in named.items() if keras.ops.is_tensor(tensor)}


def choose(names: Sequence[str], which: str | int | None, argument: str) -> str:
    """Returns the name of the chosen output.

    Raises:
        TargetError: If there is no such output, or several and none is chosen.
    """
    if which is None and len(names) == 1:
        return names[0]
    position = which if isinstance(which, int) and not isinstance(which, bool) else None
    if position is not None and -len(names) <= position < len(names):
        return names[position]
    if str(which) in names:
        return str(which)
    raise TargetError(
        f"{arg(argument)} must be an output of the model, by name or position. "
        f"Received: {which!r} for {counted(len(names), 'output')} {quoted(names)}. "
        f"Name one: `{argument}={names[0]!r}`."
    )


def per_example(value: Tensor, setting: Setting, what: str, ways: str) -> Tensor:
    """Returns a value as a vector with one number per example.

    Args:
        value: The value to check.
        setting: The pass, with its number of examples.
        what: Subject of the error message.
        ways: Last part of the error message.

    Raises:
        TargetError: If the value has another shape.
    """
    require_float(value, what)
    shape, batch_size = tuple(value.shape), setting.batch_size
    single = int(np.prod(shape)) == 1 and (setting.or_one or batch_size == 1)
    if shape in ((batch_size,), (batch_size, 1)) or single:
        return keras.ops.reshape(in_full_precision(value), (-1,))
    rule = "one number per call, or one per example"
    if not setting.or_one:
        rule = "one number per example, to be attributed to each example's own numbers"
    raise TargetError(
        f"{what} must be {rule}. Received: shape {shape} for a batch of {batch_size}. "
        f"{ways}"
    )


def require_float(value: Any, what: str) -> None:
    """Raises if a value is not a floating-point tensor."""
    dtype = ""
    received = f"an object of type {type(value).__name__}"
    if keras.ops.is_tensor(value):
        dtype = keras.backend.standardize_dtype(value.dtype)
        received = f"dtype {dtype}, which has no gradient"
    rule = f"{what} must give a floating-point number, in a tensor that depends on the "
    way_out = "Compute it with `keras.ops`, from scores or probabilities instead of "
    way_out += "the predicted class."
    require("float" in dtype, f"{rule}outputs.", received, way_out)


def in_full_precision(value: Tensor) -> Tensor:
    """Casts half precision to float32, so that sums over a batch do not overflow."""
    half = keras.backend.standardize_dtype(value.dtype) in ("float16", "bfloat16")
    return keras.ops.cast(value, "float32") if half else value
