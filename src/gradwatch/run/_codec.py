"""The codec of a run: records as TensorBoard values, and back.

Every tag is of the plugin `gradwatch`, and its metadata say in JSON what it holds:

| tag | a step's value |
| --- | --- |
| `gradwatch/rows/<layout>` | float64 `[rows, columns]`; `blank` where not measured |
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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..summarise import COLUMNS, HIGHEST, LOWEST, blank
from ._counts import pack, unpack
from ._error import RunError
from ._layout import TOTALS, Layout, Record
from ._protos import protos

PLUGIN = "gradwatch"
FORMAT = 3
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
    rows = np.ascontiguousarray(record.rows, np.float64)
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


def _array(array: NDArray[np.float64]) -> Any:
    p = protos()
    return p.Tensor(
        dtype=p.DT_DOUBLE,
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


# back ---------------------------------------------------------------------------------


class Counts(Protocol):
    """The histograms of a step, wherever they are."""

    def read(self) -> NDArray[np.int64]:
        """Returns the counts, `[rows, BUCKETS]`."""


@dataclass(slots=True)
class Packed:
    """Histograms in memory, unpacked when they are first read."""

    data: list[bytes]
    rows: int
    _counts: NDArray[np.int64] | None = None

    def read(self) -> NDArray[np.int64]:
        """Returns the counts, `[rows, BUCKETS]`."""
        if self._counts is None:
            self._counts = unpack(self.data, self.rows)
        return self._counts


@dataclass(slots=True)
class Decoded:
    """The values of one event, or of one step.

    Attributes:
        step: The step of the event.
        layout: Of the rows; None if there are none.
        rows: float64, in the order of `COLUMNS`.
        totals: Those that were measured.
        histograms: The tag and the packed counts; None where not due.
        findings: Findings, in order.
        notes: Facts of the run as a whole.
    """

    step: int
    layout: Layout | None = None
    rows: NDArray[np.float64] = field(default_factory=lambda: blank((0, len(COLUMNS))))
    totals: dict[str, float] = field(default_factory=dict)
    histograms: tuple[str, Packed] | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def record(self) -> Record | None:
        """The record, without its histograms; None if the event has no rows."""
        if self.layout is None:
            return None
        return Record(self.step, self.layout, self.rows, None, self.totals)

    def take(self, tag: str, meta: Meta, value: NDArray[Any] | list[bytes]) -> None:
        """Decodes the value of a tag, whose metadata are `meta`."""
        match meta["what"]:
            case "rows":
                self.layout = meta["layout"]
                self.rows = _in_order(np.asarray(value, np.float64), meta["columns"])
            case "totals":
                measured = zip(meta["names"], *np.asarray(value).tolist(), strict=True)
                self.totals = {
                    name: number for name, number, there in measured if there
                }
            case "histograms":
                data = [bytes(part) for part in value]
                self.histograms = tag, Packed(data, meta["lines"])
            case "findings":
                self.findings.append(json.loads(value[0]))
            case "note":
                self.notes[tag.removeprefix(NOTES)] = json.loads(value[0])


def decode(event: Any, known: Mapping[str, Meta]) -> Decoded:
    """Returns what an event says under the tags whose metadata are known."""
    decoded = Decoded(int(event.step))
    for value in event.summary.value:
        meta = known.get(value.tag)
        if meta is None:
            continue
        tensor = value.tensor
        data: NDArray[Any] | list[bytes] = list(tensor.string_val)
        if tensor.tensor_content:
            shape = [dim.size for dim in tensor.tensor_shape.dim]
            data = np.frombuffer(tensor.tensor_content, "<f8").reshape(shape)
        elif meta["what"] == "rows":  # of no weight at all
            data = np.empty((0, len(meta["columns"])))
        decoded.take(value.tag, meta, data)
    return decoded


def metadata(values: Iterable[Any], source: object) -> Iterator[tuple[str, Meta]]:
    """Yields the tags that these values describe, and their metadata.

    Raises:
        RunError: If the run is of another format.
    """
    for value in values:
        plugin = value.metadata.plugin_data
        if plugin.plugin_name == PLUGIN:
            yield value.tag, meta_of(plugin.content, source)


def meta_of(content: bytes, source: object) -> Meta:
    """Returns the metadata of a tag, from the bytes in the file."""
    meta: dict[str, Any] = json.loads(content)
    if meta["format"] != FORMAT:
        newer = meta["format"] > FORMAT
        way_out = "Upgrade gradwatch to read it." if newer else "Record the run again."
        raise RunError(
            f"A run must be of format {FORMAT}. Received: format {meta['format']} in "
            f"'{source}'. {way_out}"
        )
    if meta["what"] == "rows":
        parts = (tuple(meta[key]) for key in ("names", "kinds", "sizes"))
        meta["layout"] = Layout(*parts)
        meta["columns"] = tuple(meta["columns"])
    return meta


def _in_order(
    rows: NDArray[np.float64], columns: tuple[str, ...]
) -> NDArray[np.float64]:
    """Returns the rows in the order of `COLUMNS`.

    A column that the file does not have was not measured; one that this version does
    not know is left out.
    """
    if columns == COLUMNS:
        return rows
    ordered = blank((len(rows), len(COLUMNS)))
    for index, column in enumerate(COLUMNS):
        if column in columns:
            ordered[:, index] = rows[:, columns.index(column)]
    return ordered
