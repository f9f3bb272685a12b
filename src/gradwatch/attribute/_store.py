"""An attribution on disk: a NumPy `.npz` file, and back."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from .._errors import GradwatchError, quoted
from ._layout import KEEP, from_columns, header_of, to_columns

if TYPE_CHECKING:
    from ._result import Attribution

FORMAT = 2
"""Version of the file; grows when an older gradwatch could not read it."""


def save(attribution: Attribution, path: str | os.PathLike[str]) -> None:
    """Writes everything but the way to make it again."""
    words = json.dumps({"format": FORMAT, **header_of(attribution)})
    arrays = to_columns(attribution, KEEP)
    # A file, not a name: NumPy would put ".npz" behind a name without it.
    with replacing(path) as file:
        np.savez_compressed(file, words=np.array(words), **arrays)  # type: ignore[arg-type]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yields a file that takes the name `path` when it is whole.

    Until then it has another name: on a full disk, what was saved before must not be
    lost as well.
    """
    draft = Path(os.fspath(path) + ".new")
    try:
        with open(draft, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the arguments of the attribution that was saved.

    Raises:
        GradwatchError: If the file holds something else.
    """
    what = "holds something else"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        what = f"holds {quoted(arrays)}"
        words = json.loads(str(arrays.get("words", "{}")))
        if "batches" in words:
            what = "is the export of a dataset: `numpy.load` reads it"
        if not {"format", "places"} <= set(words):
            raise ValueError
        if words["format"] != FORMAT:
            what = (
                f"is of format {words['format']}: the gradwatch that wrote it reads it"
            )
            raise ValueError
    except (TypeError, ValueError, EOFError, zipfile.BadZipFile):
        raise GradwatchError(
            "`path` must be a file that `Attribution.save` wrote. Received: "
            f"{os.fspath(path)!r}, which {what}."
        ) from None
    return from_columns(words, arrays, words["settings"][0])
