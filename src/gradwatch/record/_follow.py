"""Reading a run while it is written: what was read once is not read again."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ._counts import unpack
from ._encode import NOTES, Meta
from ._framing import OVERHEAD, TornError, unframe
from ._layout import Layout
from ._protos import protos
from ._read import may_concern_us, metadata

_SLICE = 16 * 2**20  # bytes that are read at once


class Listener(Protocol):
    """What is told of a run, in the order it was written."""

    def restart(self, step: int) -> None:
        """Training went back: forget what is known from this step on."""

    def step(self, found: FoundStep) -> None:
        """A recorded step."""

    def finding(self, step: int, finding: dict[str, Any]) -> None:
        """Something was found."""

    def note(self, key: str, facts: dict[str, Any]) -> None:
        """Facts of the run as a whole; the last of a key wins."""


class Counts(Protocol):
    """The histograms of a step, wherever they are."""

    def read(self) -> NDArray[np.int64]:
        """Returns the counts, `[lines, BUCKETS]`."""


@dataclass(slots=True)
class FoundStep:
    """One recorded step, as it stands in the file."""

    step: int
    layout: Layout
    columns: tuple[str, ...]
    rows: NDArray[np.float32]
    totals: dict[str, float] = field(default_factory=dict)
    histograms: Counts | None = None


class _Place(NamedTuple):
    """Where a record stands."""

    path: Path
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class CountsInFile:
    """Histograms that stay in the event file: they are most of it."""

    place: _Place
    tag: str
    lines: int

    def read(self) -> NDArray[np.int64]:
        """Returns the counts, `[lines, BUCKETS]`."""
        with self.place.path.open("rb") as file:
            file.seek(self.place.offset)
            [record] = unframe(file.read(self.place.length))
        for value in protos().Event.FromString(record).summary.value:
            if value.tag == self.tag:
                return unpack(list(value.tensor.string_val), self.lines)
        raise OSError(f"'{self.place.path}' has changed.")


@dataclass(slots=True)
class _File:
    offset: int = 0
    damaged: bool = False
    known: dict[str, Meta] = field(default_factory=dict)


class Follower:
    """Tells a listener what the event files of a directory hold, and what is new.

    Example:
    >>> from gradwatch.record import Layout, Record, RunWriter
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> class Printer:
    ...     def restart(self, step): ...
    ...     def note(self, key, facts): ...
    ...     def step(self, found):
    ...         print("step", found.step)
    >>> layout = Layout(("a",), ("weight",), (6,))
    >>> row = blank((1, len(COLUMNS)))
    >>> follower = Follower("runs/f")
    >>> with RunWriter("runs/f") as writer:
    ...     for step in range(2):
    ...         writer.write(Record(step, layout, row, None, {}))
    ...         all_told = follower.tell(Printer())
    step 0
    step 1

    Args:
        directory: Of the run. It need not be there yet.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._files: dict[Path, _File] = {}

    @property
    def waiting(self) -> int:
        """How many bytes there are that were not read."""
        sizes = _sizes(self.directory)
        read = sum(self._files[path].offset for path in sizes if path in self._files)
        damaged = sum(
            sizes[path] - file.offset
            for path, file in self._files.items()
            if file.damaged and path in sizes
        )
        return sum(sizes.values()) - read - damaged

    @property
    def read(self) -> int:
        """How many bytes were read."""
        return sum(file.offset for file in self._files.values())

    def again(self) -> Follower:
        """Returns one that has read nothing yet."""
        return Follower(self.directory)

    def lost(self) -> bool:
        """Tells whether a file that was read is gone, or another one now."""
        sizes = _sizes(self.directory)
        return any(
            sizes.get(path, -1) < file.offset for path, file in self._files.items()
        )

    def tell(self, listener: Listener, seconds: float = float("inf")) -> bool:
        """Tells what is new, for about so many seconds; returns whether that was all.

        Files of others are passed over. A record that was cut off at the end of a file
        may be one that is being written: it is looked at again next time.
        """
        until, told = time.monotonic() + seconds, False
        for path, size in _sizes(self.directory).items():
            file = self._files.setdefault(path, _File())
            while not file.damaged and file.offset < size:
                if told and time.monotonic() > until:
                    return False
                if not self._slice(path, file, listener):
                    break  # torn, or not finished yet
                told = True
        return True

    def _slice(self, path: Path, file: _File, listener: Listener) -> bool:
        """Tells the next records of a file; returns whether there was one."""
        length, start = _SLICE, file.offset
        while True:
            with path.open("rb") as stream:
                stream.seek(start)
                data = stream.read(length)
            try:
                for record in unframe(data):
                    size = len(record) + OVERHEAD
                    _tell(record, _Place(path, file.offset, size), file.known, listener)
                    file.offset += size
            except TornError as torn:
                if not torn.last:
                    file.damaged = True
                    warnings.warn(
                        f"A record in '{path}' is damaged: what follows it in the "
                        "file is left out.",
                        RuntimeWarning,
                        stacklevel=4,
                    )
            if file.offset > start or file.damaged or len(data) < length:
                return file.offset > start
            length *= 4  # a record that is larger than the slice


def _tell(
    record: bytes, place: _Place, known: dict[str, Meta], listener: Listener
) -> None:
    """Tells the listener each thing that a record says."""
    if not may_concern_us(record):
        return
    event = protos().Event.FromString(record)
    known.update(metadata(place.path, event.summary.value))
    if event.session_log.status == protos().SessionLog.START:
        listener.restart(int(event.step))
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
                rows = rows.reshape(len(layout), len(columns))
                step = FoundStep(int(event.step), layout, columns, rows)
            case "totals" if step is not None:
                numbers = np.frombuffer(tensor.tensor_content, "<f8").reshape(2, -1)
                found = zip(meta["names"], *numbers.tolist(), strict=True)
                step.totals = {name: number for name, number, there in found if there}
            case "histograms" if step is not None:
                step.histograms = CountsInFile(place, value.tag, meta["lines"])
            case "findings":
                listener.finding(int(event.step), json.loads(tensor.string_val[0]))
            case "note":
                key = value.tag.removeprefix(NOTES)
                listener.note(key, json.loads(tensor.string_val[0]))
    if step is not None:
        listener.step(step)


def _sizes(directory: Path) -> dict[Path, int]:
    """Returns the event files by name, which begins with the time, and their sizes."""
    found = {}
    try:
        for path in sorted(directory.iterdir()):
            if "tfevents" in path.name and path.is_file():
                found[path] = path.stat().st_size
    except OSError:  # not there yet, or just deleted
        pass
    return found
