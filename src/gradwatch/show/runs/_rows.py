"""One recorded step as rows, which the flow plot takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._errors import GradwatchError
from ...run import Run
from ...summarise import Row, is_blank

_NUMBERS = ("norm", "mean", "std", "min", "max", "mean_abs", "zeros", "underflow")
_COUNTS = ("nan", "posinf", "neginf")


def nearest(run: Run, step: Any) -> int:
    """Returns the index of the recorded step nearest to a step; `None` is the last.

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


def rows_at(run: Run, index: int, kinds: tuple[str, ...]) -> list[Row]:
    """Returns the rows of a recorded step, along the depth of the model.

    They include weights that were watched and have no gradient at this step.
    """
    chunk, at = run.store.at(index)
    facts: dict[str, Any] = run.notes.get("model", {}).get("weights", {})
    layout = chunk.layout
    keys = zip(layout.kinds, layout.names, strict=True)
    index_of = {key: row for row, key in enumerate(keys)}
    rows = []
    for kind in kinds:
        names = [*run.store.names(kind)]
        if kind == "weight":
            names += [n for n, f in facts.items() if n not in names and _missed(f)]
        for name in names:
            shape = _shape(name, facts)
            row = index_of.get((kind, name))
            if row is None:
                reason = "no gradient arrived at this step"
                rows.append(Row.absent(name, kind, shape, "float32", reason))
                continue
            numbers: dict[str, Any] = {
                column: _number(chunk.column(column)[at, row], column in _COUNTS)
                for column in (*_NUMBERS, *_COUNTS)
            }
            size = layout.sizes[row] or 1
            rows.append(Row(name, kind, shape, "float32", size, **numbers))
    return rows


def _missed(fact: dict[str, Any]) -> bool:
    return bool(fact.get("watched") and fact.get("trainable"))


def _shape(name: str, facts: dict[str, Any]) -> tuple[int, ...]:
    """Returns the shape that was noted, or that of a matrix."""
    shape = facts.get(name, {}).get("shape", (1, 1))
    return tuple(int(length) for length in shape)


def _number(value: np.float64, whole: bool) -> float | int | None:
    if is_blank(np.array([value])).any() or (whole and math.isnan(value)):
        return None
    return int(value) if whole else float(value)
