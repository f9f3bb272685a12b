"""A run as a table for other tools."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..summarise import COLUMNS
from ._codec import FORMAT, dumps
from ._error import RunError, missing
from ._layout import TOTALS
from ._series import Column, Totals, ratio
from ._store import Chunk, Store, masked

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Long:
    """One line for each step and name: by step, then along the depth of the model."""

    step: NDArray[np.int64]
    name: NDArray[np.object_]
    kind: NDArray[np.object_]
    columns: Mapping[str, Column]


def long(store: Store) -> Long:
    """Returns all numbers of a run as one table."""
    chunks = store.chunks
    steps = [np.repeat(c.steps[: c.count], len(c.layout)) for c in chunks]
    names = [np.tile(_objects(c.layout.names), c.count) for c in chunks]
    kinds = [np.tile(_objects(c.layout.kinds), c.count) for c in chunks]
    columns = {
        name: masked(np.concatenate([np.empty(0), *(_flat(c, name) for c in chunks)]))
        for name in COLUMNS
    }
    columns["update_ratio"] = ratio(columns["update_norm"], columns["weight_norm"])
    return Long(
        np.concatenate([np.empty(0, np.int64), *steps]),
        np.concatenate([_objects(()), *names]),
        np.concatenate([_objects(()), *kinds]),
        columns,
    )


def _flat(chunk: Chunk, name: str) -> NDArray[np.float64]:
    return chunk.column(name).ravel()


def to_pandas(store: Store) -> pd.DataFrame:
    """Returns a table of pandas, in which NaN and "not measured" differ."""
    try:
        import pandas as pd
    except ImportError:
        raise missing("pandas", "pandas", "`to_pandas`") from None
    table = long(store)
    columns: dict[str, Any] = {
        "step": table.step,
        "name": pd.Categorical(table.name, categories=_unique(table.name)),
        "kind": pd.Categorical(table.kind, categories=_unique(table.kind)),
    }
    for name, column in table.columns.items():
        mask = np.ma.getmaskarray(column)
        columns[name] = pd.arrays.FloatingArray(column.data.copy(), mask.copy())
    return pd.DataFrame(columns)


def export(path: Path, store: Store, totals: Totals, rest: Mapping[str, Any]) -> None:
    """Writes a run to a file whose kind its suffix says."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".json", ".parquet"):
        raise RunError(
            "`path` must end in .csv, .json or .parquet. Received: "
            f"{str(path)!r}. Choose one of these."
        )
    if not path.parent.is_dir():
        raise RunError(
            f"`path` must be in a directory that exists. Received: {str(path)!r}. Make "
            f"{str(path.parent)!r} first."
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
    """Gives a file to write to, which takes the place of `path` when all went well."""
    handle, name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix
    )
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        # `mkstemp` makes files that only their owner may read; these are ordinary ones.
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _to_csv(path: Path, table: Long) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "name", "kind", *table.columns])
        writer.writerows(_lines(table))


def _to_json(path: Path, table: Long, totals: Totals, rest: Mapping[str, Any]) -> None:
    heads = ["step", "name", "kind", *table.columns]
    names = [*TOTALS, "update_ratio"]
    columns = [_words(getattr(totals, name)) for name in names]
    lines = zip(totals.steps.tolist(), *columns, strict=True)
    whole = {
        "format": FORMAT,
        "totals": [dict(zip(["step", *names], line, strict=True)) for line in lines],
        "rows": [dict(zip(heads, line, strict=True)) for line in _lines(table)],
        # By way of our own JSON, for what findings and notes may hold.
        **_valid(json.loads(dumps(rest))),
    }
    with path.open("w", encoding="utf-8") as file:
        json.dump(whole, file, allow_nan=False)


def _to_parquet(path: Path, table: Long) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise missing("pyarrow", "pandas", "A .parquet file") from None
    columns = {
        "step": pa.array(table.step),
        "name": pa.array(table.name.tolist(), pa.string()).dictionary_encode(),
        "kind": pa.array(table.kind.tolist(), pa.string()).dictionary_encode(),
    }
    for name, column in table.columns.items():
        columns[name] = pa.array(column.data, mask=np.ma.getmaskarray(column))
    parquet.write_table(pa.table(columns), path)


def _lines(table: Long) -> Iterator[tuple[Any, ...]]:
    columns = [_words(column) for column in table.columns.values()]
    ids = (table.step.tolist(), table.name.tolist(), table.kind.tolist())
    return zip(*ids, *columns, strict=True)


def _words(column: Column) -> list[Any]:
    """Returns numbers, words for those that are none, and `None` where not measured."""
    return [_valid(number) for number in column.tolist()]


def _valid(thing: Any) -> Any:
    """Returns what JSON can say: NaN and infinities in words."""
    if isinstance(thing, float) and not math.isfinite(thing):
        if math.isnan(thing):
            return "NaN"
        return "Infinity" if thing > 0 else "-Infinity"
    if isinstance(thing, dict):
        return {key: _valid(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [_valid(value) for value in thing]
    return thing


def _objects(names: Sequence[str]) -> NDArray[np.object_]:
    return np.array(names, object)


def _unique(names: NDArray[np.object_]) -> list[str]:
    return list(dict.fromkeys(names.tolist()))
