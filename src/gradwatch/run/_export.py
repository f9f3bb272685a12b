"""A run as a table for other tools."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import arg
from ._codec import dumps
from ._error import RunError, needing
from ._schema import FORMAT
from ._series import Totals, masked, ratio
from ._store import Store

if TYPE_CHECKING:
    import pandas as pd


Table = dict[str, Any]
"""Columns by name: step, name and kind, then masked arrays."""


def long(store: Store) -> Table:
    """Returns all numbers as one table: by step, then along the depth of the model."""
    chunks = store.chunks
    steps = [np.repeat(c.steps[: c.count], len(c.layout)) for c in chunks]
    names = [np.tile(np.array(c.layout.names, object), c.count) for c in chunks]
    kinds = [np.tile(np.array(c.layout.kinds, object), c.count) for c in chunks]
    columns = {
        name: masked(np.concatenate([[], *(c.column(name).ravel() for c in chunks)]))
        for name in store.columns
    }
    return {
        "step": np.concatenate([np.empty(0, np.int64), *steps]),
        "name": np.concatenate([np.empty(0, object), *names]),
        "kind": np.concatenate([np.empty(0, object), *kinds]),
        **columns,
        "update_ratio": ratio(columns["update_norm"], columns["weight_norm"]),
    }


def to_pandas(store: Store) -> pd.DataFrame:
    """Returns a table of pandas, in which NaN and "not measured" differ."""
    with needing("pandas", "pandas", "`to_pandas`"):
        import pandas as pd
    table = long(store)
    for name, column in table.items():
        if name in ("name", "kind"):
            categories = list(dict.fromkeys(column.tolist()))
            table[name] = pd.Categorical(column, categories=categories)
        elif isinstance(column, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(column)
            table[name] = pd.arrays.FloatingArray(column.data.copy(), mask.copy())
    return pd.DataFrame(table)


def export(path: Path, store: Store, totals: Totals, rest: Mapping[str, Any]) -> None:
    """Writes a run to a file, in the format that its suffix names."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".json", ".parquet"):
        raise RunError(
            f"{arg('path')} must end in .csv, .json or .parquet. Received: "
            f"{str(path)!r}. Choose one of these."
        )
    if not path.parent.is_dir():
        raise RunError(
            f"{arg('path')} must be in a directory that exists. Received: "
            f"{str(path)!r}. Make {str(path.parent)!r} first."
        )
    table = long(store)
    with _replacing(path) as draft:
        if suffix == ".csv":
            _to_csv(draft, table)
        elif suffix == ".json":
            _to_json(draft, table, totals, rest)
        else:
            _to_parquet(draft, table)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yields a draft to write to, which replaces `path` if nothing is raised."""
    draft = path.with_name(f".{path.stem}-{uuid.uuid4().hex}{path.suffix}")
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _to_csv(path: Path, table: Table) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(_rows(table))


def _to_json(path: Path, table: Table, totals: Totals, rest: Mapping[str, Any]) -> None:
    steps = {"step": totals.steps, **totals.columns}
    steps["update_ratio"] = totals.update_ratio
    whole = {
        "format": FORMAT,
        "totals": [dict(zip(steps, row, strict=True)) for row in _rows(steps)],
        "rows": [dict(zip(table, row, strict=True)) for row in _rows(table)],
        # By way of our own JSON, for what findings and notes may hold.
        **_valid(json.loads(dumps(rest))),
    }
    with path.open("w", encoding="utf-8") as file:
        json.dump(whole, file, allow_nan=False)


def _to_parquet(path: Path, table: Table) -> None:
    with needing("pyarrow", "pandas", "A .parquet file"):
        import pyarrow as pa
        from pyarrow import parquet
    columns = {}
    for name, column in table.items():
        columns[name] = pa.array(np.ma.getdata(column), mask=np.ma.getmaskarray(column))
        if name in ("name", "kind"):
            columns[name] = columns[name].cast(pa.string()).dictionary_encode()
    parquet.write_table(pa.table(columns), path)


def _rows(table: Table) -> Iterator[tuple[Any, ...]]:
    """Returns the rows of a table; `None` where nothing was measured."""
    columns = [[_valid(cell) for cell in each.tolist()] for each in table.values()]
    return zip(*columns, strict=True)


def _valid(thing: Any) -> Any:
    """Returns what JSON can hold: NaN and infinities as strings."""
    if isinstance(thing, float) and not math.isfinite(thing):
        if math.isnan(thing):
            return "NaN"
        return "Infinity" if thing > 0 else "-Infinity"
    if isinstance(thing, dict):
        return {key: _valid(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_valid(value) for value in thing]
    return thing
