"""One recorded step as rows, which the flow plot takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._errors import GradwatchError
from ...run import Run, Store
from ...summarise import Row, is_blank

_NUMBERS = ("norm", "mean", "std", "min", "max", "mean_abs", "zeros", "underflow")
_COUNTS = ("nan", "posinf", "neginf")
_VECTORS = ("bias", "beta", "gamma", "scale")


def nearest(run: Run, step: Any) -> int:
    """Returns which of the recorded steps is nearest; without a step, the last.

    Raises:
        GradwatchError: If the step is before the first, or behind the last.
    """
    if step is None:
        return len(run.steps) - 1
    first, last = int(run.steps[0]), int(run.steps[-1])
    whole = isinstance(step, int | np.integer) and not isinstance(step, bool)
    if not whole or not first <= step <= last:
        raise GradwatchError(
            f"`step` must be a step from {first:,} to {last:,}, between which this run "
            f"was recorded. Received: {step!r}. Leave it out for the last one; "
            "`run.steps` lists them all."
        )
    return int(np.argmin(np.abs(run.steps - int(step))))


def rows_at(store: Store, index: int, kinds: tuple[str, ...]) -> list[Row]:
    """Returns the rows of a recorded step, along the depth of the model.

    Weights that were watched and have no gradient at this step are among them.
    """
    chunk, at = store.at(index)
    facts: dict[str, Any] = store.notes.get("model", {}).get("weights", {})
    lines = {
        (kind, name): line
        for line, (kind, name) in enumerate(
            zip(chunk.layout.kinds, chunk.layout.names, strict=True)
        )
    }
    found = []
    for kind in kinds:
        names = [*store.names(kind)]
        if kind == "weight":
            names += [n for n, f in facts.items() if n not in names and _missed(f)]
        for name in names:
            size, shape = 0, _shape(name, facts)
            line = lines.get((kind, name))
            if line is None:
                missing = "no gradient arrived at this step"
                found.append(Row.absent(name, kind, shape, "float32", missing))
                continue
            size = chunk.layout.sizes[line] or 1
            numbers: dict[str, Any] = {
                key: _number(chunk.column(key)[at, line]) for key in _NUMBERS
            }
            counts: dict[str, Any] = {
                key: _count(chunk.column(key)[at, line]) for key in _COUNTS
            }
            found.append(
                Row(
                    name=name,
                    kind=kind,
                    shape=shape,
                    dtype="float32",
                    size=size,
                    **numbers,
                    **counts,
                )
            )
    return found


def _missed(fact: dict[str, Any]) -> bool:
    return bool(fact.get("watched") and fact.get("trainable"))


def _shape(name: str, facts: dict[str, Any]) -> tuple[int, ...]:
    """Returns the shape that was noted, or one that its name makes likely."""
    noted = facts.get(name, {}).get("shape")
    if noted is not None:
        return tuple(int(length) for length in noted)
    return (1,) if name.endswith(_VECTORS) else (1, 1)


def _number(value: np.float64) -> float | None:
    return None if is_blank(np.array([value])).any() else float(value)


def _count(value: np.float64) -> int | None:
    known = _number(value)
    return None if known is None or math.isnan(known) else int(known)
