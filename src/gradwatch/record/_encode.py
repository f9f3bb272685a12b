"""Records as TensorBoard values, and back.

Every tag is of the plugin `gradwatch`, and its metadata say in JSON what it holds:

| tag | a step's value |
| --- | --- |
| `gradwatch/rows/<layout>` | float32 `[lines, columns]` |
| `gradwatch/histograms/<layout>` | the buckets in use, packed (see `pack`) |
| `gradwatch/totals` | float64 `[2, names]`: values, and 1 where one was measured |
| `gradwatch/findings` | JSON |
| `gradwatch/notes/<key>` | JSON |

A layout is known by a hash of its metadata: TensorBoard keeps the first metadata it
sees of a tag, over all files of a run, so a second layout must not share the tag.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..summarise import BUCKETS, COLUMNS, HIGHEST, LOWEST
from ._layout import TOTALS, Layout, Record
from ._protos import protos

PLUGIN = "gradwatch"
FORMAT = 1
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


def pack(counts: NDArray[np.integer]) -> list[bytes]:
    """Returns a histogram of each line in few bytes: a dtype and a deflated matrix.

    The matrix has a column for each bucket that any line uses. Its first row are the
    numbers of these buckets, the others are the counts.

    Example:
    >>> import numpy as np
    >>> counts = np.zeros((2, 128), int)
    >>> counts[1, 70] = 3
    >>> unpack(pack(counts), 2).tolist() == counts.tolist()
    True
    """
    counts = np.asarray(counts)
    used = np.flatnonzero(counts.any(axis=0))
    matrix = np.concatenate([used[None], counts[:, used]])
    # A layer of a million weights needs 32 bits for a few of its counts: the zeros that
    # this brings to all the others are what deflating takes away again.
    largest = int(matrix.max(initial=0))
    dtype = "<u2" if largest < 2**16 else "<u4" if largest < 2**32 else "<u8"
    return [dtype.encode(), zlib.compress(matrix.astype(dtype).tobytes(), 1)]


def unpack(packed: list[bytes], lines: int) -> NDArray[np.int64]:
    """Returns the counts, `[lines, BUCKETS]`: the inverse of `pack`."""
    dtype, data = packed
    matrix = np.frombuffer(zlib.decompress(data), dtype.decode()).reshape(lines + 1, -1)
    counts = np.zeros((lines, BUCKETS), np.int64)
    counts[:, matrix[0].astype(np.intp)] = matrix[1:]
    return counts


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
