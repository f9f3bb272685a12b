"""Targets computed from the outputs: class scores, single outputs, means."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import keras
import numpy as np

from .._errors import arg
from ._target import (
    Setting,
    Target,
    Tensor,
    choose,
    in_full_precision,
    named_outputs,
    per_example,
    require,
    require_float,
    require_inside,
    whole_index,
)


@dataclass(frozen=True, eq=False)
class ClassScore(Target):
    """The target that `gradwatch.class_score` returns."""

    index: np.ndarray
    output: str | int | None = None

    def key(self) -> Hashable:
        """Returns a key without the index: another class needs no compilation."""
        return ("class_score", self.output)

    def arrays(self, y: Any, batch_size: int) -> dict[str, Any]:
        """Returns one index per example."""
        del y
        index = self.index
        if index.ndim == 0:
            index = np.full((batch_size,), index)
        rule = f"{arg('index')} must be one class for all examples or one for each."
        received = f"shape {index.shape} for a batch of {batch_size}"
        require(index.shape == (batch_size,), rule, received)
        return {"index": index.astype("int32")}

    def check(self, outputs: Mapping[str, tuple[int, ...]]) -> None:
        """Raises unless the chosen output is [batch, classes] and has that class."""
        name = choose(list(outputs), self.output, "output")
        shape = outputs[name]
        rule = "`class_score` needs an output of shape (batch, classes)."
        way_out = "Choose a position: `target=gradwatch.output(index=(…, class))` or "
        way_out += "`target=lambda out: keras.ops.mean(out[..., class], axis=(1, …))`."
        require(len(shape) == 2, rule, f"output {name!r} of shape {shape}", way_out)
        low, high = int(np.min(self.index)), int(np.max(self.index))
        least, most = -shape[1], shape[1] - 1
        classes = f"the {shape[1]} classes of output {name!r}"
        rule = f"{arg('index')} must be from {least} to {most}, for {classes}."
        require(least <= low <= high <= most, rule, str(high if high > most else low))

    def for_rows(self, rows: np.ndarray) -> Target:
        """Returns a target in which each row keeps the class of its example."""
        if self.index.ndim == 0:
            return self
        return ClassScore(self.index[rows], self.output)

    def scores(self, setting: Setting) -> Tensor:
        """Computes the chosen score of each example."""
        scores = _output(setting, self.output, "output")
        require_float(scores, "The output of a `class_score`")
        received = f"an output of shape {tuple(scores.shape)} for a batch of "
        received += f"{setting.batch_size}"
        rule = "`class_score` needs one row of scores per example."
        require(scores.shape[0] == setting.batch_size, rule, received)
        index = setting.arrays["index"]
        index = keras.ops.where(index < 0, index + scores.shape[1], index)
        # A mask instead of a gather, whose gradient is sparse on some backends and
        # whose out-of-range behaviour differs between them.
        mask = keras.ops.one_hot(index, scores.shape[1], dtype=scores.dtype)
        return keras.ops.sum(in_full_precision(scores * mask), axis=1)

    def __str__(self) -> str:
        where = "" if self.output is None else f", output={self.output!r}"
        index = self.index if self.index.ndim == 0 else "one per example"
        return f"class_score({index}{where})"


@dataclass(frozen=True, eq=False)
class Output(Target):
    """The target that `gradwatch.output` returns."""

    which: str | int | None = None
    index: tuple[int, ...] = ()

    def check(self, outputs: Mapping[str, tuple[int, ...]]) -> None:
        """Raises if the index is outside of the output."""
        name = choose(list(outputs), self.which, "which")
        require_inside(self.index, outputs[name], f"output {name!r}")

    def scores(self, setting: Setting) -> Tensor:
        """Computes the chosen number of each example."""
        value = _output(setting, self.which, "which")
        for position in self.index:
            value = value[:, position]
        which = "" if self.which is None else f"{self.which!r}, "
        ways = (
            f"Take one unit with `gradwatch.output({which}index=…)`, a class with "
            "`gradwatch.class_score(i)`, the mean with `gradwatch.mean_output()`, or "
            "give a function of the outputs."
        )
        return per_example(value, setting, f"`output({which}…)`", ways)

    def __str__(self) -> str:
        parts = [] if self.which is None else [repr(self.which)]
        parts += [f"index={self.index}"] if self.index else []
        return f"output({', '.join(parts)})"


@dataclass(frozen=True, eq=False)
class MeanOutput(Target):
    """The target that `gradwatch.mean_output` returns."""

    which: str | int | None = None

    def value(self, setting: Setting) -> Tensor:
        """Computes the mean of all numbers of the output."""
        return keras.ops.mean(self._chosen(setting))

    def scores(self, setting: Setting) -> Tensor:
        """Computes the mean of the output of each example."""
        chosen = self._chosen(setting)
        return keras.ops.mean(keras.ops.reshape(chosen, (chosen.shape[0], -1)), axis=1)

    def _chosen(self, setting: Setting) -> Tensor:
        chosen = _output(setting, self.which, "which")
        require_float(chosen, "The output of `mean_output`")
        return in_full_precision(chosen)

    def __str__(self) -> str:
        return f"mean_output({'' if self.which is None else repr(self.which)})"


@dataclass(frozen=True, eq=False)
class Function(Target):
    """A function of the outputs.

    Attributes:
        function: Returns one number per example.
        parts: Number of equal parts of the batch, each of which the function sees
            alone: it may hold something for each example.
    """

    function: Callable[[Any], Tensor]
    parts: int = 1

    def scores(self, setting: Setting) -> Tensor:
        """Computes the function, which must be one number per example."""
        ways = (
            "Reduce it inside the function, for instance with `keras.ops.mean`, and "
            "leave the batch axis alone: `lambda out: out[:, 3]`; or use "
            "`gradwatch.class_score(i)` or `gradwatch.mean_output()`."
        )
        outputs, part = [setting.outputs], setting
        if self.parts > 1:
            size = setting.batch_size // self.parts
            part = replace(setting, batch_size=size)
            starts = range(0, setting.batch_size, size)
            cuts = (itemgetter(slice(n, n + size)) for n in starts)
            outputs = [keras.tree.map_structure(cut, setting.outputs) for cut in cuts]
        values = map(self.function, outputs)
        checked = [per_example(v, part, "A target function", ways) for v in values]
        return keras.ops.concatenate(checked)

    def __str__(self) -> str:
        return f"the function {getattr(self.function, '__name__', repr(self.function))}"


def _output(setting: Setting, which: str | int | None, argument: str) -> Tensor:
    """Returns the chosen output."""
    outputs = named_outputs(setting.model, setting.outputs)
    return outputs[choose(list(outputs), which, argument)]


def class_score(index: Any, output: str | int | None = None) -> Target:
    """Returns the score of a class as a target.

    The score is an element of the model's output: a logit if the model ends in logits,
    a probability if it ends in a softmax. The scores of the examples are summed, so the
    activations and inputs of each example get the gradient of its own score.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> x = np.ones((2, 3), "float32")
    >>> g = gw.gradients(model, x, target=gw.class_score([0, 1]), wrt=gw.inputs())
    >>> g["inputs"].shape[0]
    2

    Args:
        index: The class, or one class per example (a list, an array, a tensor).
        output: Output of a model that has several, by name or position.

    Returns:
        A target.
    """
    try:
        classes = np.asarray(keras.ops.convert_to_numpy(index))
    except (TypeError, ValueError):
        classes = np.asarray(None)
    what = repr(index) if np.ndim(index) == 0 else f"dtype {classes.dtype}"
    rule = f"{arg('index')} must be a whole number, or one per example."
    require(classes.dtype.kind in "iu" and classes.size > 0, rule, what)
    return ClassScore(classes, output)


def output(which: str | int | None = None, index: int | tuple[int, ...] = ()) -> Target:
    """Returns an output of the model, or one unit of it, as a target.

    It is summed over the examples.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> g = gw.gradients(model, np.ones((2, 3)), target=gw.output(), wrt=gw.inputs())
    >>> g["inputs"].shape[1]
    3

    Args:
        which: Output of a model that has several, by name or position.
        index: The unit, if the output has more than one number per example; without
            the batch axis.

    Returns:
        A target.
    """
    return Output(which, whole_index(index))


def mean_output(which: str | int | None = None) -> Target:
    """Returns the mean of the model's output as a target.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
    >>> g = gw.gradients(model, np.ones((2, 3)), target=gw.mean_output())
    >>> list(g)
    ['dense/kernel', 'dense/bias']

    Args:
        which: Output of a model that has several, by name or position.

    Returns:
        A target.
    """
    return MeanOutput(which)
