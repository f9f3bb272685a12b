"""A batch under attack: its values, and the gradient at others."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from ..._errors import GradwatchError, arg, renamed
from ...engine import Captured, Entry, PassOptions, dense, engine_for
from ...select import walk
from ...targets import Loss, as_target
from .._problem import Problem
from .._tensors import (
    Tensors,
    input_tensors,
    layer_tensors,
    replaced,
    selector,
    to_numpy,
)

GOALS = ("lower", "raise")


class Attack:
    """An attack on the inputs of a model, or on the output of a layer."""

    def __init__(
        self,
        model: Any,
        x: Any,
        target: Any,
        layer: Any,
        y: Any,
        goal: Any,
        bounds: Any,
    ) -> None:
        self.target = as_target(target)
        self.is_loss = isinstance(self.target, Loss)
        if goal not in (None, *GOALS):
            raise GradwatchError(
                f"`goal` must be one of {GOALS}, or None. Received: {goal!r}."
            )
        if y is not None and not self.is_loss:
            raise GradwatchError(
                f"`y` is used only by a loss. Received: `y` with {self.target}. Leave "
                "it out, or write `target=gradwatch.loss()`."
            )
        raises = self.is_loss if goal is None else goal == "raise"
        self.sign = 1.0 if raises else -1.0
        self.bounds = _checked_bounds(bounds)
        self.model, self.y, self.layer = model, y, layer
        self._problem: Problem | None = None
        if self.is_loss:
            captured = self._passed(x)
            self.x = captured.x
            self.tensors = self._tensors(captured)
        else:
            self._problem = Problem(model, x, self.target, layer)
            if layer is not None:
                self._problem.own()  # what the layer gives is known after a pass
            self.x, self.tensors = self._problem.x, self._problem.free

    def gradients(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """Returns the gradient of the target where the numbers are `values`."""
        everything = np.arange(len(values[0]))
        tensors = self.tensors.tensors(everything, values)
        if self._problem is not None:
            passed = self._problem.gradients(everything, tensors)
            return [to_numpy(g) for g in passed.gradients]
        if self.layer is None:
            captured = self._passed(replaced(self.x, tensors))
        else:
            captured = self._passed(self.x, tensors)
        by_leaf = {entry.leaf: entry for entry in captured.entries}
        entries = [by_leaf[leaf] for leaf in self.tensors.leaves]
        return [to_numpy(dense(_gradient(entry, self.target))) for entry in entries]

    def bounded(self, values: np.ndarray) -> np.ndarray:
        """Returns values that are allowed."""
        return values if self.bounds is None else np.clip(values, *self.bounds)

    def packed(self, values: list[np.ndarray]) -> Any:
        """Returns arrays in the structure of `x`, or those of the layer."""
        if self.layer is not None:
            by_name = dict(zip(self.tensors.names, values, strict=True))
            return values[0] if len(values) == 1 else by_name
        return keras.tree.map_structure(to_numpy, replaced(self.x, values))

    def _passed(self, x: Any, given: list[Any] | None = None) -> Captured:
        """Runs the loss once; from the layer on, where its numbers are given."""
        leaves = () if given is None else tuple(self.tensors.leaves)
        wrt, options = (selector(self.layer),), PassOptions(given=leaves)
        engine = engine_for(self.model, wrt, options)
        batch = (self.model, x, self.y, self.target, given or ())
        with renamed(wrt="layer"):
            return engine.run(*batch, loop=True)

    def _tensors(self, captured: Captured) -> Tensors:
        if self.layer is None:
            return input_tensors(self.model, self.x, walk(self.model))
        entries = [entry for entry in captured.entries if entry.kind == "activation"]
        return layer_tensors(entries, [to_numpy(entry.value) for entry in entries])


def _gradient(entry: Entry, target: Any) -> Any:
    if entry.gradient is None:
        raise GradwatchError(
            f"{arg('target')} must depend on what is moved, by a path that has a "
            f"gradient. Received: {target}, and no gradient at {entry.name!r}. "
            f"{entry.reason}"
        )
    return entry.gradient


def _checked_bounds(bounds: Any) -> tuple[float, float] | None:
    """Raises when `bounds` are no two numbers, the smaller one first."""
    if bounds is None:
        return None
    try:
        low, high = (float(number) for number in bounds)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise GradwatchError(
            "`bounds` must be the least and the largest number allowed, such as "
            f"`(0, 1)`, or None. Received: {bounds!r}."
        )
    return low, high
