"""One recorded step as rows, which the flow plot takes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._errors import require
from ...run import Run
from ...summarise import COLUMNS, Row, is_blank

_COLUMNS = COLUMNS[: COLUMNS.index("weight_norm")]  # those of a row
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
    rule = f"`step` must be a step from {first:,} to {last:,}, between which this run "
    way_out = "Leave it out for the last one; `run.steps` lists them all."
    fits = whole and first <= step <= last
    require(fits, f"{rule}was recorded.", step, way_out)
    return int(np.argmin(np.abs(run.steps - int(step))))


def rows_at(run: Run, index: int, kinds: tuple[str, ...]) -> list[Row]:
    """Returns the rows of a recorded step, along the depth of the model.

    They include weights that were watched and have no gradient at this step.
    """
    chunk, at = run.store.at(index)
    facts: dict[str, Any] = run.notes.get("model", {}).get("weights", {})
    index_of = {key: row for row, key in enumerate(chunk.layout.keys)}
    columns = {name: chunk.column(name)[at] for name in _COLUMNS}
    blanks = {name: is_blank(values) for name, values in columns.items()}
    rows = []
    for kind in kinds:
        names = dict.fromkeys(run.store.names(kind))
        if kind == "weight":
            watched = [n for n, f in facts.items() if f.get("watched")]
            names |= dict.fromkeys(n for n in watched if facts[n].get("trainable"))
        for name in names:
            # A matrix, where the shape was not noted.
            shape = tuple(map(int, facts.get(name, {}).get("shape", (1, 1))))
            row = index_of.get((kind, name))
            if row is None:
                reason = "no gradient arrived at this step"
                rows.append(Row.absent(name, kind, shape, "float32", reason))
                continue
            numbers: dict[str, Any] = {}
            for column, values in columns.items():
                value, whole = values[row].item(), column in _COUNTS
                none = blanks[column][row] or (whole and math.isnan(value))
                numbers[column] = None if none else int(value) if whole else value
            size = chunk.layout.sizes[row] or 1
            rows.append(Row(name, kind, shape, "float32", size, **numbers))
    return rows
