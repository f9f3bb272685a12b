"""A store: where the attributions of a dataset end up, whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._errors import GradwatchError
from ._columns import Columns, Files
from ._journal import Journal


class MissingExtraError(GradwatchError, ImportError):
    """A library is needed that is not installed; the message names the extra."""


def missing(library: str, extra: str, suffix: str) -> MissingExtraError:
    """Returns the error for an optional library that could not be imported."""
    return MissingExtraError(
        f"`to` must be of a kind whose library is installed. Received: a {suffix} "
        f'store, which needs {library}. `pip install "gradwatch[{extra}]"` brings it; '
        "a .npz store needs nothing."
    )


@dataclass(frozen=True, slots=True)
class Whole:
    """What a store holds, open for reading."""

    head: Mapping[str, Any]
    batches: list[dict[str, Any]]
    columns: Mapping[str, Any]
    """By name: something with a shape that gives rows as NumPy arrays."""
    complete: bool = True
    ended: bool = True


class Store(ABC):
    """One kind of file. Its journal says what is whole as long as it is written."""

    suffix: str

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(path)

    @abstractmethod
    def require(self) -> None:
        """Raises when the library is not there."""

    @abstractmethod
    def whole(self) -> Whole | None:
        """Returns the finished store; None when there is none.

        Raises:
            GradwatchError: When something else is at that path.
        """

    @abstractmethod
    def columns(self) -> Columns:
        """Returns where rows go until it is finished; the journal has a head."""

    @abstractmethod
    def finish(self) -> None:
        """Makes it whole, in one instant, of what the journal has."""

    @abstractmethod
    def discard(self) -> None:
        """Deletes a finished store."""

    def clear(self) -> None:
        """Deletes what is there, finished or not.

        Raises:
            GradwatchError: When another process writes to it.
        """
        if self.journal.exists:
            self.journal.lock()
        self.journal.remove()
        self.discard()

    def words(self) -> dict[str, Any]:
        """Returns what a finished store says of itself."""
        journal = self.journal
        return {**journal.head, "batches": journal.batches, "ended": journal.ended}

    def opened(self) -> Whole | None:
        """Returns what there is, finished or not; None when there is nothing."""
        found = self.whole()
        if found is not None or not self.journal.read():
            return found
        journal = self.journal
        journal.fit(self.columns().whole())
        if not journal.batches:
            return None
        columns = self.columns().read(journal.rows)
        return Whole(
            journal.head, journal.batches, columns, complete=False, ended=journal.ended
        )


class JoinedStore(Store):
    """A file that cannot grow: columns grow beside it and are joined in the end."""

    def columns(self) -> Files:
        """Returns the files of the columns, in the directory of the journal."""
        return Files(self.journal.directory, self.journal.kinds)

    def finish(self) -> None:
        """Writes the file beside, and puts it in its place when it is whole."""
        draft = self.journal.directory / ("whole" + ".new")
        try:
            self.join(draft)
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)
        self.journal.remove()

    @abstractmethod
    def join(self, draft: Path) -> None:
        """Writes everything into one file, holding a part of it at a time."""

    def discard(self) -> None:
        """Deletes the file."""
        self.path.unlink(missing_ok=True)


def not_ours(path: Path) -> GradwatchError:
    """Returns the error for a path where something else is."""
    return GradwatchError(
        "`to` must be a new path, or a store that `attribute_dataset` wrote. Received: "
        f"{str(path)!r}, which holds something else. Give another path."
    )
