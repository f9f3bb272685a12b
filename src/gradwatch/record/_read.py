"""Reading the event files of a directory: steps, findings and notes as they stand."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import counted, quoted
from ._counts import unpack
from ._encode import FORMAT, NOTES, PLUGIN, Meta
from ._error import RunError
from ._framing import TornError, unframe
from ._layout import Layout
from ._protos import protos

_MARK = f"{PLUGIN}/".encode()
_SMALL = 256  # bytes: an event that starts a session has no more


class Packed:
    """The histograms of a step, unpacked when they are looked at."""

    def __init__(self, data: list[bytes], lines: int) -> None:
        self._data = data
        self._lines = lines

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The counts, `[lines, BUCKETS]`."""
        return unpack(self._data, self._lines)


@dataclass(slots=True)
class Step:
    """What was recorded at one step."""

    layout: Layout
    columns: tuple[str, ...]
    rows: NDArray[np.float32]
    totals: dict[str, float] = field(default_factory=dict)
    histograms: Packed | None = None


@dataclass(slots=True)
class Contents:
    """All that a directory holds of a run."""

    steps: dict[int, Step] = field(default_factory=dict)
    findings: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def restart(self, step: int) -> None:
        """Forgets what a run that starts at `step` does again."""
        self.steps = {s: kept for s, kept in self.steps.items() if s < step}
        self.findings = [found for found in self.findings if found[0] < step]


def read_directory(directory: Path) -> Contents:
    """Returns what the event files of a directory hold, in the order they were begun.

    Files of others are passed over. A record that was cut off at the end of a file is
    not there yet, or never will be: it is left out without a word.

    Raises:
        RunError: If there is no such directory, or no run in it.
    """
    paths = _event_files(directory)
    contents, ours = Contents(), False
    for path in paths:
        data = path.read_bytes()
        if _MARK in data:  # else another program's, which may be large
            ours = True
            for event, meta in _events(path, data):
                _take(event, meta, contents)
    if not ours:
        raise RunError(_nothing(directory, paths))
    return contents


def _event_files(directory: Path) -> list[Path]:
    what = ""
    if not directory.exists():
        what = "which does not exist"
    elif not directory.is_dir():
        what = "which is a file"
    if what:
        raise RunError(
            "`directory` must be the directory of a run. Received: "
            f"{str(directory)!r}, {what}. Give the directory that the monitor was "
            "given."
        )
    # As TensorBoard: by name, which begins with the time it was made.
    found = (path for path in directory.iterdir() if "tfevents" in path.name)
    return sorted(path for path in found if path.is_file())


def _nothing(directory: Path, paths: list[Path]) -> str:
    held = "which is empty"
    if paths:
        files = counted(len(paths), "event file")
        held = f"which holds {files} of other programs, such as {paths[0].name!r}"
    elif names := sorted(path.name for path in directory.iterdir()):
        held = f"which holds {quoted(names, 4)}, and no event file"
    below = sorted({path.parent for path in directory.glob("*/*tfevents*.gradwatch")})
    out = "Give the directory that the monitor was given."
    if below:
        runs = quoted([str(path) for path in below], 3)
        out = f"There are runs below it: {runs}."
    return (
        "`directory` must hold a run of gradwatch. Received: "
        f"{str(directory)!r}, {held}. {out}"
    )


def _events(path: Path, data: bytes) -> Iterator[tuple[Any, dict[str, Meta]]]:
    """Yields the events that concern us, and the metadata known so far in the file."""
    event_type = protos().Event
    known: dict[str, Meta] = {}
    records = unframe(data)
    while True:
        try:
            record = next(records)
        except StopIteration:
            return
        except TornError as torn:
            if not torn.last:
                lost = counted(len(data) - torn.offset, "byte")
                warnings.warn(
                    f"A record in '{path}' is damaged, at byte {torn.offset:,}: the "
                    f"last {lost} of the file are left out.",
                    RuntimeWarning,
                    stacklevel=4,
                )
            return
        if not may_concern_us(record):
            continue
        event = event_type.FromString(record)
        known.update(metadata(path, event.summary.value))
        yield event, known


def may_concern_us(record: bytes) -> bool:
    """Tells whether it is worth decoding: ours, or the start of a session.

    The others are curves and histograms for TensorBoard's own tabs.
    """
    return len(record) <= _SMALL or _MARK in record


def metadata(path: Path, values: Iterable[Any]) -> Iterator[tuple[str, Meta]]:
    """Yields the tags that these values describe, and what they say of them."""
    for value in values:
        plugin = value.metadata.plugin_data
        if plugin.plugin_name == PLUGIN:
            meta = json.loads(plugin.content)
            if meta["format"] > FORMAT:
                raise RunError(
                    f"A run must be of format {FORMAT} or older. Received: format "
                    f"{meta['format']} in '{path}'. Upgrade gradwatch to read it."
                )
            if meta["what"] == "rows":
                parts = (tuple(meta[key]) for key in ("names", "kinds", "sizes"))
                meta["layout"] = Layout(*parts)
                meta["columns"] = tuple(meta["columns"])
            yield value.tag, meta


def _take(event: Any, known: Mapping[str, Meta], contents: Contents) -> None:
    if event.session_log.status == protos().SessionLog.START:
        contents.restart(event.step)
    step = None
    for value in event.summary.value:
        meta = known.get(value.tag)
        if meta is None:
            continue
        tensor = value.tensor
        match meta["what"]:
            case "rows":
                rows = np.frombuffer(tensor.tensor_content, "<f4")
                layout, columns = meta["layout"], meta["columns"]
                shape = (len(layout), len(columns))
                step = Step(layout, columns, rows.reshape(shape))
                contents.steps[event.step] = step
            case "totals" if step is not None:
                numbers = np.frombuffer(tensor.tensor_content, "<f8").reshape(2, -1)
                found = zip(meta["names"], *numbers.tolist(), strict=True)
                step.totals = {name: number for name, number, there in found if there}
            case "histograms" if step is not None:
                step.histograms = Packed(list(tensor.string_val), meta["lines"])
            case "findings":
                finding = json.loads(tensor.string_val[0])
                contents.findings.append((event.step, finding))
            case "note":
                key = value.tag.removeprefix(NOTES)
                contents.notes[key] = json.loads(tensor.string_val[0])


def as_path(path: str | os.PathLike[str], argument: str) -> Path:
    """Returns the path, or says that the argument was none."""
    try:
        return Path(path)
    except TypeError:
        raise RunError(
            f"`{argument}` must be a path. Received: {path!r}. Give a string or a "
            "`pathlib.Path`."
        ) from None
