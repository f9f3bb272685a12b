"""The result of an autopsy."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from ..._errors import GradwatchError, counted
from ._files import read_latest, restore


@dataclasses.dataclass(frozen=True, slots=True)
class Autopsy:
    """The first non-finite value of a training step, and its cause.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="a")])
    >>> model.compile(loss="mse")
    >>> result = gw.autopsy(model, np.array([[1.0, np.nan]]), np.ones((1, 1)))
    >>> result.where, result.address, result.evidence["first_index"]
    ('input', 'x', [0, 1])

    Attributes:
        found: Whether anything was not finite.
        where: `"input"`, `"weight"`, `"activation"`, `"loss"`, `"activation
            gradient"`, `"weight gradient"` or `"update"`; None if nothing was found.
        address: Of the input, weight or layer call; for a loss `"loss"`, `"target"`, or
            of the layer or weight that adds it; None if nothing was found.
        direction: `"data"`, `"forward"`, `"backward"` or `"update"`; None for a
            weight that was broken before, and if nothing was found. A weight with
            `"forward"` is one that the pass itself sets, as a moving average.
        cause: What happened, in a few words.
        sure: Whether the very operation was seen; otherwise it is what fits best.
        evidence: The numbers: counts of NaN and infinities, and what the inputs of
            the operation looked like. If nothing was found, the largest magnitudes.
        try_first: What to try first.
        notes: What was not looked at, and other remarks.
        step: Of the training that was watched; None for an autopsy asked for by hand.
        directory: Where the batch and the weights from before the step are kept; None
            if they are not.
    """

    found: bool
    where: str | None = None
    address: str | None = None
    direction: str | None = None
    cause: str = ""
    sure: bool = False
    evidence: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    try_first: str = ""
    notes: tuple[str, ...] = ()
    step: int | None = None
    directory: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, which JSON can hold."""
        return dataclasses.asdict(self) | {"notes": list(self.notes)}

    @classmethod
    def from_dict(cls, values: Any) -> Autopsy:
        """Returns what `to_dict` was made from.

        Raises:
            GradwatchError: When something else was given.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, Mapping) or "found" not in values:
            raise GradwatchError(
                "`from_dict` needs what `Autopsy.to_dict` gives. Received: an object "
                f"of type {type(values).__name__} without `found`."
            )
        # A later version may have said more.
        known = {name: value for name, value in values.items() if name in names}
        return cls(**known | {"notes": tuple(known.get("notes", ()))})

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Autopsy:
        """Returns the autopsy that a `GradientMonitor` wrote into its run.

        Example:
        >>> import gradwatch as gw
        >>> gw.Autopsy.load("runs/healthy")
        Traceback (most recent call last):
            ...
        gradwatch.GradwatchError: `directory` must be that of a run with an autopsy...

        Args:
            directory: Of the run, or of one autopsy in it. Of several, it is the last.

        Raises:
            GradwatchError: If there is none, or it cannot be read.
        """
        return cls.from_dict(read_latest(directory))

    def restore(self, model: Any) -> tuple[Any, Any, Any]:
        """Gives a model the weights from before the step; returns the step's batch.

        The seeds of its random layers as well, and on torch the random state of torch:
        a dropout drops the same again.

        Example:
        >>> import gradwatch as gw
        >>> gw.Autopsy(found=False).restore(None)
        Traceback (most recent call last):
            ...
        gradwatch.GradwatchError: `restore` needs an autopsy with its batch and...

        Args:
            model: A model built as the one that was trained.

        Returns:
            The inputs, labels and sample weights, as for `gradwatch.autopsy`; None for
            what there was not.

        Raises:
            GradwatchError: If the batch and the weights were not kept.
        """
        if self.directory is None:
            raise GradwatchError(
                "`restore` needs an autopsy with its batch and weights. Received: one "
                "that has none. `Autopsy.load(…)` of a run that was watched with "
                "`GradientMonitor(…, on_nonfinite='autopsy')` has them."
            )
        return restore(self.directory, model)

    def one_line(self) -> str:
        """Returns the finding as one line."""
        if not self.found:
            return "Nothing is non-finite."
        likely = "" if self.sure else "likely "
        return f"{self.where} `{self.address}`: {likely}{self.cause}"

    def __str__(self) -> str:
        parts = _found(self) if self.found else _nothing(self)
        if self.step is not None:
            parts.insert(0, f"Step {self.step}.")
        if self.try_first:
            parts.append(f"Try first: {self.try_first}")
        if self.directory is not None:
            parts.append(f"The batch, and the weights before it: {self.directory}")
        return "\n".join([*parts, *self.notes])


_WHERE = {
    "input": "in the data, in `{}`",
    "weight": "in the weight `{}`, before the step",
    "state": "in the weight `{}`, as the forward pass sets it",
    "activation": "in the forward pass, at `{}`",
    "loss": "in the {} itself: all activations are finite",
    "addition": "in what `{}` adds to the loss: all activations are finite",
    "activation gradient": "in the backward pass, at `{}`: the forward pass is finite",
    "weight gradient": "in the gradient of `{}`: the forward pass is finite",
    "update": "in the optimizer's update of `{}`: its gradient is finite",
}


def _found(result: Autopsy) -> list[str]:
    where = str(result.where)
    if where == "loss" and result.address not in ("loss", "target"):
        where = "addition"
    if where == "weight" and result.direction == "forward":
        where = "state"
    words = _WHERE[where].format(result.address) + _counted(result.evidence)
    certainty = "Cause" if result.sure else "Likely cause"
    return [
        f"The first non-finite value is {words}.",
        f"{certainty}: {result.cause}{_inputs(result.evidence)}.",
    ]


def _counted(evidence: Mapping[str, Any]) -> str:
    kinds = [("nan", "NaN"), ("posinf", "+inf"), ("neginf", "-inf")]
    there = [f"{evidence[key]:,} {name}" for key, name in kinds if evidence.get(key)]
    if not there:
        return ""
    first = evidence.get("first_index")
    index = f", the first at {first}" if first else ""
    return f" ({', '.join(there)} of {counted(evidence['size'], 'number')}{index})"


def _inputs(evidence: Mapping[str, Any]) -> str:
    """Says between which numbers the inputs of the operation were."""
    shown = [
        f"{part['min']:.4g} to {part['max']:.4g}"
        + (f", {counted(part['zeros'], 'zero')}" if part["zeros"] else "")
        for part in evidence.get("inputs", ())[:2]
        if part["min"] is not None
    ]
    if not shown:
        return ""
    before = f"`{evidence['operation']}` got" if "operation" in evidence else "inputs"
    return f" ({before} {' and '.join(shown)})"


def _nothing(result: Autopsy) -> list[str]:
    lines = ["Nothing is non-finite in this pass."]
    for what in ("activation", "gradient"):
        size = result.evidence.get(f"largest_{what}")
        if size is None:
            continue
        address, dtype = (result.evidence[f"{what}_{key}"] for key in ("at", "dtype"))
        room = result.evidence[f"{what}_headroom"]
        far = "" if room is None else f", 10^{room:.0f} times below the end of {dtype}"
        lines.append(f"The largest {what} is {size:.4g}, at `{address}`{far}.")
    return lines
