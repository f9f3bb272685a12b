"""Baselines: what an input is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._errors import GradwatchError, arg, counted, quoted, renamed, require
from ._checked import check
from ._place import Place
from ._problem import Problem

NAMES = ("zeros", "mean", "blur")

Baseline: TypeAlias = Any
"""One of `NAMES`, a number, an array, a function of the values, `sampled(…)`, or a
list or dict of these, one for each tensor."""


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Made by `gradwatch.attribute.sampled`."""

    data: Any
    count: int
    seed: int

    def __str__(self) -> str:
        return f"{counted(self.count, 'sample')} of the data, seed {self.seed}"


def sampled(data: Any, count: int = 10, *, seed: int = 0) -> Sampled:
    """Several baselines for each example, drawn from data; the results are averaged.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> data = np.random.default_rng(0).normal(size=(100, 3))
    >>> baseline = gw.attribute.sampled(data, 5)
    >>> a = gw.integrated_gradients(
    ...     model, data[:2], gw.class_score(1), baseline=baseline
    ... )
    >>> a.settings["baseline"]
    '5 samples of the data, seed 0'

    Args:
        data: Inputs, in the structure of `x`, as many examples as you like.
        count: Number of draws for each example.
        seed: Of the draw.

    Returns:
        A baseline.

    Raises:
        GradwatchError: If `count` is no number of samples, or `seed` none.
    """
    check(count=count, seed=seed)
    return Sampled(data, count, seed)


@dataclass(frozen=True, slots=True)
class Blurred:
    """Made by `gradwatch.attribute.blurred`."""

    sigma: float

    def __call__(self, values: np.ndarray, channels: int | None = None) -> np.ndarray:
        """Returns the values, blurred along all axes but the batch's and channels'."""
        for axis in set(range(1, values.ndim)) - {channels}:
            values = np.apply_along_axis(_smooth, axis, values, self.sigma)
        return values

    def __str__(self) -> str:
        return f"blur of {self.sigma:g}"


def blurred(sigma: float) -> Blurred:
    """The input itself, blurred: what is left are large shapes and colours.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])
    >>> baseline = gw.attribute.blurred(2.0)
    >>> a = gw.integrated_gradients(
    ...     model, np.eye(8)[None, ..., None], gw.class_score(0), baseline=baseline
    ... )
    >>> a.values.shape
    (1, 8, 8, 1)

    Args:
        sigma: The width of the Gaussian, in pixels or time steps.

    Returns:
        A baseline.

    Raises:
        GradwatchError: If `sigma` is no width.
    """
    check(sigma=sigma)
    return Blurred(sigma)


def _smooth(line: np.ndarray, sigma: float) -> np.ndarray:
    reach = max(1, int(np.ceil(3 * sigma)))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    padded = np.pad(line, reach, mode="edge")
    return np.convolve(padded, kernel / kernel.sum(), mode="valid")


def described(baseline: Baseline) -> str:
    """Returns a baseline in words, for the settings of a result."""
    if isinstance(baseline, str | Sampled | Blurred | int | float):
        return str(baseline)
    if callable(baseline):
        return str(getattr(baseline, "__name__", "a function"))
    return "given"


def baselines(problem: Problem, baseline: Baseline) -> list[list[np.ndarray]]:
    """Returns the baselines: for each of several, an array for each tensor.

    Raises:
        GradwatchError: If one is of the wrong shape, or is none at all.
    """
    if isinstance(baseline, Sampled):
        with renamed(x="data", baseline="data"):
            data = problem.values_of(baseline.data)
        random = np.random.default_rng(baseline.seed)
        draws = random.integers(len(data[0]), size=(baseline.count, problem.size))
        return [[array[rows] for array in data] for rows in draws]
    free = problem.free
    inputs = all(leaf.kind == "input" for leaf in free.dtypes)
    named = isinstance(baseline, str | int | float) or callable(baseline)
    several = len(free.names) > 1 and isinstance(baseline, list | tuple)
    unordered = several and (not inputs or isinstance(problem.x, Mapping))
    try:
        arrays = [*map(_array, _items(free.names, baseline), free.places)]
    except GradwatchError:
        if not inputs and not named and problem.takes(baseline):
            # An input of the model: the baseline is what the layer gives for it.
            with renamed(x="baseline"):
                return [[*map(_array, problem.values_of(baseline), free.places)]]
        if not unordered:
            raise
    rule = f"{arg('baseline')} must be a dict by name where `x` is one, or several "
    rule += f"layers are named: {quoted(free.names)} have an order of their own."
    require(not unordered, rule, type(baseline).__name__)
    return [arrays]


def _items(names: list[str], baseline: Baseline) -> list[Any]:
    """Returns the baseline of each tensor."""
    known = {name.removeprefix("inputs[").removesuffix("]"): name for name in names}
    several = len(names) > 1 and not isinstance(baseline, str)
    if isinstance(baseline, Mapping):
        received: Any = [*map(str, baseline)]
        given = {known.get(key, key): item for key, item in baseline.items()}
        items = [given[n] for n in names] if set(given) == set(names) else []
    elif several and isinstance(baseline, list | tuple):
        received, items = counted(len(baseline), "value"), list(baseline)
    elif several and np.ndim(baseline) and not callable(baseline):
        received, items = "one array", []
    else:
        return [baseline] * len(names)
    rule = f"{arg('baseline')} must have a value for each of {quoted(known)}, "
    require(len(items) == len(names), f"{rule}in a list or a dict.", received)
    return items


def _array(item: Any, place: Place) -> np.ndarray:
    name, values, shape = place.name, place.values, place.values.shape
    if isinstance(item, str) and item in NAMES:
        item = _named(item, place)
    rule = f"{arg('baseline')} must be one `sampled(…)` for all inputs, so that what "
    rule += "is drawn belongs together."
    way_out = "Write `sampled([first, second], 10)`, its data in the structure of `x`."
    require(not isinstance(item, Sampled), rule, name, way_out)
    if isinstance(item, Blurred):
        item = item(values, place.channels)
    elif callable(item):
        item = item(values)
    try:
        if item is None or isinstance(item, str):  # NumPy takes None for a NaN
            raise TypeError
        array = np.asarray(item, dtype=values.dtype)
    except (TypeError, ValueError):
        raise GradwatchError(
            f"{arg('baseline')} must be one of {NAMES}, a number, an array, or a "
            f"function. Received: {item!r}."
        ) from None
    rule = f"{arg('baseline')} must have the shape of {name!r}, {shape}, or that of a "
    rule += f"single example, {shape[1:]}."
    way_out = "Several for each example are `gradwatch.attribute.sampled(data)`."
    fits = array.shape in ((), shape, shape[1:], (1, *shape[1:]))
    require(fits, rule, array.shape, way_out)
    return np.broadcast_to(array, shape)


def _named(item: str, place: Place) -> Baseline:
    """Returns the baseline that a name stands for."""
    values = place.values
    if item == "zeros":
        return 0
    rule = f"`baseline={item!r}` needs axes of space or time."
    way_out = "Pass the mean of your data, `baseline=data.mean(axis=0)`, or `'zeros'`."
    require(values.ndim > 2, rule, (place.name, values.shape), way_out)
    if item == "mean":
        mean = values.mean(axis=place.spatial, keepdims=True)
        return np.broadcast_to(mean, values.shape)
    largest = max(values.shape[axis] for axis in place.spatial)
    return blurred(max(largest / 10, 0.5))
