"""Targets that are read off the outputs: class scores, single outputs, means."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from .._errors import TargetError
from ._target import (
    Setting,
    Target,
    Tensor,
    choose,
    in_full_precision,
    named_outputs,
    one_number,
    one_per_example,
    require_float,
    weakly,
    whole_index,
)


@dataclass(frozen=True, eq=False)
class ClassScore(Target):
    """Made by `gradwatch.class_score`."""

    index: np.ndarray
    output: str | int | None = None

    def key(self) -> Hashable:
        """The index is data: another class needs no new compilation."""
        return ("class_score", self.output)

    def arrays(self, y: Any, batch_size: int) -> dict[str, Any]:
        """One index per example."""
        del y
        index = self.index
        if index.ndim == 0:
            index = np.full((batch_size,), index)
        if index.shape != (batch_size,):
            raise TargetError(
                "`index` must be one class for all examples or one for each. "
                f"Received: shape {index.shape} for a batch of {batch_size}."
            )
        return {"index": index.astype("int32")}

    def check(self, outputs: Mapping[str, tuple[int, ...]]) -> None:
        """The chosen output must be [batch, classes] with that class in it."""
        name = choose(list(outputs), self.output, "output")
        shape = outputs[name]
        if len(shape) != 2:
            raise TargetError(
                "`class_score` needs an output of shape (batch, classes). Received: "
                f"output {name!r} of shape {shape}. Pick the place first: "
                "`target=gradwatch.output(index=(…, class))` or "
                "`target=lambda out: keras.ops.mean(out[..., class], axis=(1, …))`."
            )
        low, high = int(np.min(self.index)), int(np.max(self.index))
        if low < -shape[1] or high >= shape[1]:
            raise TargetError(
                f"`index` must be from {-shape[1]} to {shape[1] - 1}, for the "
                f"{shape[1]} classes of output {name!r}. Received: "
                f"{high if high >= shape[1] else low}."
            )

    def for_rows(self, rows: np.ndarray) -> Target:
        """Each row keeps the class of its example."""
        if self.index.ndim == 0:
            return self
        return ClassScore(self.index[rows], self.output)

    def value(self, setting: Setting) -> Tensor:
        """The sum over the examples of the chosen score of each."""
        return keras.ops.sum(self.scores(setting))

    def scores(self, setting: Setting) -> Tensor:
        """The chosen score of each example."""
        outputs = named_outputs(setting.model, setting.outputs)
        scores = outputs[choose(list(outputs), self.output, "output")]
        require_float(scores, "The output of a `class_score`")
        if scores.shape[0] != setting.batch_size:
            raise TargetError(
                "`class_score` needs one row of scores per example. Received: an "
                f"output of shape {tuple(scores.shape)} for a batch of "
                f"{setting.batch_size}."
            )
        index = setting.arrays["index"]
        index = keras.ops.where(index < 0, index + scores.shape[1], index)
        # A mask, not a gather: a gather's gradient is sparse on some backends and
        # its out-of-range behaviour differs.
        mask = keras.ops.one_hot(index, scores.shape[1], dtype=scores.dtype)
        return keras.ops.sum(in_full_precision(scores * mask), axis=1)

    def __str__(self) -> str:
        where = "" if self.output is None else f", output={self.output!r}"
        index = self.index if self.index.ndim == 0 else "one per example"
        return f"class_score({index}{where})"


@dataclass(frozen=True, eq=False)
class Output(Target):
    """Made by `gradwatch.output`."""

    which: str | int | None = None
    index: tuple[int, ...] = ()

    def key(self) -> Hashable:
        """Tells one output or unit from another."""
        return ("output", self.which, self.index)

    def check(self, outputs: Mapping[str, tuple[int, ...]]) -> None:
        """The index must be inside the output."""
        name = choose(list(outputs), self.which, "which")
        inner = outputs[name][1:]
        fits = len(self.index) <= len(inner) and all(
            -size <= i < size for i, size in zip(self.index, inner, strict=False)
        )
        if not fits:
            raise TargetError(
                "`index` must be a place in the output, without the batch axis. "
                f"Received: {self.index} for output {name!r} of shape {outputs[name]}."
            )

    def value(self, setting: Setting) -> Tensor:
        """The sum over the examples of the chosen number of each."""
        return one_number(*self._chosen(setting))

    def scores(self, setting: Setting) -> Tensor:
        """The chosen number of each example."""
        return one_per_example(*self._chosen(setting))

    def _chosen(self, setting: Setting) -> tuple[Tensor, int, str, str]:
        outputs = named_outputs(setting.model, setting.outputs)
        name = choose(list(outputs), self.which, "which")
        value = outputs[name]
        for place in self.index:
            value = value[:, place]
        which = "" if self.which is None else f"{self.which!r}, "
        ways = (
            f"Take one unit with `gradwatch.output({which}index=…)`, a class with "
            "`gradwatch.class_score(i)`, the mean with `gradwatch.mean_output()`, or "
            "give a function of the outputs."
        )
        return value, setting.batch_size, f"`output({which}…)`", ways

    def __str__(self) -> str:
        parts = [] if self.which is None else [repr(self.which)]
        parts += [f"index={self.index}"] if self.index else []
        return f"output({', '.join(parts)})"


@dataclass(frozen=True, eq=False)
class MeanOutput(Target):
    """Made by `gradwatch.mean_output`."""

    which: str | int | None = None

    def key(self) -> Hashable:
        """Tells one output from another."""
        return ("mean_output", self.which)

    def value(self, setting: Setting) -> Tensor:
        """The mean of all numbers of the output."""
        return keras.ops.mean(self._chosen(setting))

    def scores(self, setting: Setting) -> Tensor:
        """The mean of the numbers that the output has for each example."""
        chosen = self._chosen(setting)
        return keras.ops.mean(keras.ops.reshape(chosen, (chosen.shape[0], -1)), axis=1)

    def _chosen(self, setting: Setting) -> Tensor:
        outputs = named_outputs(setting.model, setting.outputs)
        chosen = outputs[choose(list(outputs), self.which, "which")]
        require_float(chosen, "The output of `mean_output`")
        return in_full_precision(chosen)

    def __str__(self) -> str:
        return f"mean_output({'' if self.which is None else repr(self.which)})"


@dataclass(frozen=True, eq=False)
class Function(Target):
    """A function of the outputs."""

    function: Callable[[Any], Tensor]

    def key(self) -> Hashable:
        """The function itself: another function is another pass."""
        return ("function", weakly(self.function))

    def value(self, setting: Setting) -> Tensor:
        """What the function gives, if that is one number."""
        return one_number(
            self.function(setting.outputs),
            setting.batch_size,
            "A target function",
            "Reduce it inside the function, for instance with `keras.ops.mean`, or "
            "use `gradwatch.class_score(i)` or `gradwatch.mean_output()`.",
        )

    def scores(self, setting: Setting) -> Tensor:
        """What the function gives, if that is one number per example."""
        return one_per_example(
            self.function(setting.outputs),
            setting.batch_size,
            "A target function",
            "Leave the batch axis alone: `lambda out: out[:, 3]`, or "
            "`lambda out: keras.ops.mean(out, axis=(1, 2))`.",
        )

    def __str__(self) -> str:
        return f"the function {getattr(self.function, '__name__', repr(self.function))}"


def class_score(index: Any, output: str | int | None = None) -> Target:
    """The score of a class: one index for all examples, or one for each.

    It is read off the model's output as it is: logits if the model ends in logits,
    probabilities if it ends in a softmax. The examples' scores are added up, so each
    example's activations and inputs get the gradient of that example's own score.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> x = np.ones((2, 3), "float32")
    >>> g = gw.gradients(model, x, target=gw.class_score([0, 1]), wrt=gw.inputs())
    >>> g["inputs"].shape[0]
    2

    Args:
        index: The class, or one class per example (a list, an array, a tensor).
        output: Which output of a model that has several, by name or position.

    Returns:
        A target.
    """
    try:
        classes = np.asarray(keras.ops.convert_to_numpy(index))
    except (TypeError, ValueError):
        classes = np.asarray(None)
    if classes.dtype.kind not in "iu" or not classes.size:
        what = repr(index) if np.ndim(index) == 0 else f"dtype {classes.dtype}"
        raise TargetError(
            f"`index` must be a whole number, or one per example. Received: {what}."
        )
    return ClassScore(classes, output)


def output(which: str | int | None = None, index: int | tuple[int, ...] = ()) -> Target:
    """One output of the model, or one unit of it, added up over the examples.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> g = gw.gradients(model, np.ones((2, 3)), target=gw.output(), wrt=gw.inputs())
    >>> g["inputs"].shape[1]
    3

    Args:
        which: Which output of a model that has several, by name or position.
        index: The unit, when the output has more than one number per example; the
            batch axis is left out.

    Returns:
        A target.
    """
    return Output(which, whole_index(index))


def mean_output(which: str | int | None = None) -> Target:
    """The mean of everything the model puts out.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
    >>> g = gw.gradients(model, np.ones((2, 3)), target=gw.mean_output())
    >>> list(g)
    ['dense/kernel', 'dense/bias']

    Args:
        which: Which output of a model that has several, by name or position.

    Returns:
        A target.
    """
    return MeanOutput(which)
