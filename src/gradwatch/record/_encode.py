"""Records as TensorBoard values, and back.

Every tag is of the plugin `gradwatch`, and its metadata say in JSON what it holds:

| tag | a step's value |
| --- | --- |
| `gradwatch/rows/<layout>` | float32 `[lines, columns]` |
| `gradwatch/histograms/<layout>` | the counts, packed (see `_counts`) |
| `gradwatch/totals` | float64 `[2, names]`: values, and 1 where one was measured |
| `gradwatch/findings` | JSON |
| `gradwatch/notes/<key>` | JSON |

A layout is known by a hash of its metadata: TensorBoard keeps the first metadata it
sees of a tag, over all files of a run, so a second layout must not share the tag.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summarise import COLUMNS, HIGHEST, LOWEST
from ._counts import pack
from ._layout import TOTALS, Layout, Record
from ._protos import protos

PLUGIN = "gradwatch"
FORMAT = 2
FINDINGS = f"{PLUGIN}/findings"
NOTES = f"{PLUGIN}/notes/"
_TOTALS = f"{PLUGIN}/totals"

Meta = Mapping[str, Any]
"""What the metadata of a tag say."""


class Tags:
    """The tags of one layout, and what their metadata say."""

    def __init__(self, layout: Layout) -> None:
        rows = {
            **_meta("rows"),
            "names": layout.names,
            "kinds": layout.kinds,
            "sizes": layout.sizes,
            "columns": COLUMNS,
        }
        mark = hashlib.sha256(dumps(rows)).hexdigest()[:8]
        self.rows = f"{PLUGIN}/rows/{mark}"
        self.histograms = f"{PLUGIN}/histograms/{mark}"
        self.totals = _TOTALS
        span = {"lines": len(layout), "lowest": LOWEST, "highest": HIGHEST}
        self.meta: dict[str, Meta] = {
            self.rows: rows,
            self.histograms: {**_meta("histograms"), "rows": self.rows, **span},
            self.totals: {**_meta("totals"), "names": TOTALS},
        }


def values(record: Record, tags: Tags) -> list[Any]:
    """Returns the TensorBoard values of one recorded step, without metadata."""
    rows = np.ascontiguousarray(record.rows, np.float32)
    found = [_value(tags.rows, _array(rows))]
    if record.totals:
        totals = np.zeros((2, len(TOTALS)))
        for column, name in enumerate(TOTALS):
            if name in record.totals:
                totals[:, column] = record.totals[name], 1.0
        found.append(_value(tags.totals, _array(totals)))
    if record.histograms is not None:
        packed = pack(record.histograms)
        found.append(_value(tags.histograms, _strings(packed)))
    return found


def json_value(tag: str, payload: Mapping[str, Any]) -> Any:
    """Returns facts as the value of a tag, with its metadata."""
    value = _value(tag, _strings([dumps(payload)]))
    describe(value, _meta("findings" if tag == FINDINGS else "note"))
    return value


def describe(value: Any, meta: Meta) -> None:
    """Adds its metadata to a value: to the first one of a tag in each file."""
    value.metadata.plugin_data.plugin_name = PLUGIN
    value.metadata.plugin_data.content = dumps(meta)
    value.metadata.data_class = protos().DATA_CLASS_TENSOR


def dumps(payload: Mapping[str, Any]) -> bytes:
    """Returns JSON; what JSON does not know becomes a list, a number or words."""
    text = json.dumps(payload, default=_plain, separators=(",", ":"))
    return text.encode()


def _meta(what: str) -> dict[str, Any]:
    return {"format": FORMAT, "what": what}


def _value(tag: str, tensor: Any) -> Any:
    return protos().Value(tag=tag, tensor=tensor)


def _array(array: NDArray[Any]) -> Any:
    p = protos()
    return p.Tensor(
        dtype=p.DT_FLOAT if array.dtype == np.float32 else p.DT_DOUBLE,
        tensor_shape=_shape(array.shape),
        tensor_content=array.tobytes(),
    )


def _strings(strings: list[bytes]) -> Any:
    p = protos()
    shape = _shape((len(strings),))
    return p.Tensor(dtype=p.DT_STRING, tensor_shape=shape, string_val=strings)


def _shape(shape: tuple[int, ...]) -> Any:
    p = protos()
    return p.Shape(dim=[p.Shape.Dim(size=size) for size in shape])


def _plain(thing: Any) -> Any:
    if isinstance(thing, np.ndarray | np.generic):
        return thing.tolist()
    if isinstance(thing, set | frozenset):
        return sorted(thing, key=str)
    return str(thing)
