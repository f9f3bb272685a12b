"""What a target is: outputs in, the one number to differentiate out."""

from __future__ import annotations

import operator
import weakref
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from .._errors import TargetError, quoted
from .._keras import functional_of
from ..select import Activations

Tensor = Any


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything a target may look at: one forward pass of one model."""

    model: keras.Layer
    x: Any
    y: Any
    outputs: Any
    batch_size: int
    training: bool
    arrays: Mapping[str, Any] = field(default_factory=dict)
    read: Mapping[Any, Tensor] = field(default_factory=dict)
    """The activations that the target reads, in the order in which they arose."""


class Target(ABC):
    """The number to differentiate: what `class_score`, `loss` and the others give.

    Example:
    >>> import gradwatch as gw
    >>> isinstance(gw.class_score(3), gw.Target)
    True
    """

    uses_labels: bool = False
    training: bool = False
    """The mode of the forward pass unless the caller says otherwise."""

    @property
    def reads(self) -> tuple[Activations, ...]:
        """The activations that the target is computed from, beside the outputs."""
        return ()

    @abstractmethod
    def key(self) -> Hashable:
        """Tells targets apart that need a compiled pass of their own."""

    def kept(self) -> Any:
        """What the key names by its identity, and so must outlive it."""
        return None

    def arrays(self, y: Any, batch_size: int) -> dict[str, Any]:
        """The part of the target that changes from call to call, as data."""
        del y, batch_size
        return {}

    def check(self, outputs: Mapping[str, tuple[int, ...]]) -> None:
        """Raises a `TargetError` if outputs of these shapes have no such target."""
        del outputs

    def for_rows(self, rows: np.ndarray) -> Target:
        """The target of a batch made of these examples, some perhaps repeated."""
        del rows
        return self

    @abstractmethod
    def value(self, setting: Setting) -> Tensor:
        """The number, in `keras.ops`."""

    def scores(self, setting: Setting) -> Tensor:
        """The number of each example by itself, in `keras.ops`."""
        del setting
        raise TargetError(
            "An attribution needs a target that gives one number per example. "
            f"Received: {self}. Use `gradwatch.class_score(i)`, "
            "`gradwatch.output(…)`, `gradwatch.mean_output()` or a function of the "
            "outputs."
        )

    @abstractmethod
    def __str__(self) -> str: ...


def weakly(function: Any) -> Hashable:
    """Returns a key for a function that does not keep it, nor what it holds, alive."""
    try:
        if hasattr(function, "__self__"):
            return weakref.WeakMethod(function)
        return weakref.ref(function)
    except TypeError:  # built-in functions live for ever anyway
        return ("kept", function)


def whole_index(index: Any) -> tuple[int, ...]:
    """Returns an index as a tuple of whole numbers.

    Raises:
        TargetError: When it is something else.
    """
    positions = index if isinstance(index, tuple | list) else (index,)
    try:
        if any(isinstance(position, bool) for position in positions):
            raise TypeError
        return tuple(operator.index(position) for position in positions)
    except TypeError:
        raise TargetError(
            "`index` must be whole numbers, one for each axis without the batch axis. "
            f"Received: {index!r}."
        ) from None


def graph_output_names(model: Any) -> list[str] | None:
    """Returns the names of the outputs of a functional or sequential model."""
    graph = functional_of(model) or model
    names = getattr(graph, "output_names", None)
    return names if isinstance(names, list) else None


def named_outputs(model: Any, outputs: Any) -> dict[str, Tensor]:
    """Names each output tensor: its key, the name in the graph, or its position."""
    names: Any = graph_output_names(model)
    if not keras.tree.is_nested(outputs):
        known = isinstance(names, list) and len(names) == 1
        return {names[0] if known else "output": outputs}
    flat = keras.tree.flatten_with_path(outputs)
    from_graph = isinstance(names, list) and not isinstance(outputs, dict)
    if from_graph and len(names) == len(flat) == len(set(names)):
        named = {n: t for n, (_, t) in zip(names, flat, strict=True)}
        return {n: t for n, t in named.items() if keras.ops.is_tensor(t)}
    return {
        "/".join(str(p) for p in path): tensor
        for path, tensor in flat
        if keras.ops.is_tensor(tensor)
    }


def choose(names: Sequence[str], which: str | int | None, argument: str) -> str:
    """Returns the name of the output that is meant.

    Raises:
        TargetError: When there is no such output, or several and none is named.
    """
    names = list(names)
    if which is None:
        if len(names) == 1:
            return names[0]
        raise TargetError(
            "The target must be one output of the model. Received: no choice among "
            f"its {len(names)} outputs {quoted(names)}. Name one: "
            f"`{argument}={names[0]!r}`."
        )
    is_position = isinstance(which, int) and not isinstance(which, bool)
    if is_position and -len(names) <= int(which) < len(names):
        return names[int(which)]
    if str(which) in names:
        return str(which)
    raise TargetError(
        f"`{argument}` must be an output of the model, by name or position. Received: "
        f"{which!r}. The outputs are {quoted(names)}."
    )


def one_number(value: Tensor, batch_size: int, what: str, ways: str) -> Tensor:
    """Returns the scalar to differentiate: a scalar as it is, else a batch's sum.

    The sum over examples gives each example its own gradient with respect to its
    activations and inputs.

    Raises:
        TargetError: When the value is not one number per call or per example.
    """
    require_float(value, what)
    shape = tuple(value.shape)
    if shape in ((batch_size,), (batch_size, 1)) or int(np.prod(shape)) == 1:
        return keras.ops.sum(in_full_precision(value))
    raise TargetError(
        f"{what} must be one number per call, or one per example. Received: shape "
        f"{shape} for a batch of {batch_size}. {ways}"
    )


def one_per_example(value: Tensor, batch_size: int, what: str, ways: str) -> Tensor:
    """Returns the numbers of the examples as a vector.

    Raises:
        TargetError: When the value is not one number per example.
    """
    require_float(value, what)
    shape = tuple(value.shape)
    single = batch_size == 1 and int(np.prod(shape)) == 1
    if shape in ((batch_size,), (batch_size, 1)) or single:
        return keras.ops.reshape(in_full_precision(value), (batch_size,))
    raise TargetError(
        f"{what} must be one number per example, to be attributed to each example's "
        f"own numbers. Received: shape {shape} for a batch of {batch_size}. {ways}"
    )


def require_float(value: Any, what: str) -> None:
    """Raises when something is not a tensor of floating-point numbers."""
    if not keras.ops.is_tensor(value):
        raise TargetError(
            f"{what} must give a tensor that depends on the outputs. Received: an "
            f"object of type {type(value).__name__}. Compute it with `keras.ops`."
        )
    dtype = keras.backend.standardize_dtype(value.dtype)
    if "float" not in dtype:
        raise TargetError(
            f"{what} must give a floating-point number. Received: dtype {dtype}, which "
            "has no gradient. Use the score or the probability instead of the "
            "predicted class."
        )


def in_full_precision(value: Tensor) -> Tensor:
    """Casts half-precision values up, so that a sum over a batch does not overflow."""
    half = keras.backend.standardize_dtype(value.dtype) in ("float16", "bfloat16")
    return keras.ops.cast(value, "float32") if half else value
