"""The autopsy of a training, in the directory of its run.

In `runs/a/autopsy/step-123` there are what was found (`autopsy.json`), the batch of
that step with the seeds of random layers (`batch.npz`), and the weights from before it
(`before.weights.h5`, for `model.load_weights`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..._errors import GradwatchError

FOLDER = "autopsy"
FOUND, BATCH, WEIGHTS = "autopsy.json", "batch.npz", "before.weights.h5"
FORMAT = 1


def latest(directory: str | os.PathLike[str]) -> Path:
    """Returns the file of the newest autopsy in a run.

    Raises:
        GradwatchError: If there is none.
    """
    path = Path(directory)
    if (path / FOUND).is_file():
        return path / FOUND
    files = list((path / FOLDER).glob(f"step-*/{FOUND}"))
    if not files:
        there = "which is a file" if path.exists() else "which does not exist"
        there = "which has none" if path.is_dir() else there
        raise GradwatchError(
            "`directory` must be that of a run with an autopsy. Received: "
            f"{os.fspath(directory)!r}, {there}. `GradientMonitor(…, "
            "on_nonfinite='autopsy')` writes one when a gradient is not finite."
        )
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def read(file: Path) -> dict[str, Any]:
    """Returns what was found.

    Raises:
        GradwatchError: If it cannot be read.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        version = found.pop("format")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GradwatchError(
            f"An autopsy must be JSON of gradwatch. Received: {str(file)!r}, which "
            f"cannot be read ({type(error).__name__}). The batch and the weights "
            "beside it may still be good: run `gradwatch.autopsy(model, x, y)` on them."
        ) from None
    if version != FORMAT:
        raise GradwatchError(
            f"An autopsy must be of format {FORMAT}. Received: {str(file)!r}, of "
            f"format {version!r}. A newer gradwatch reads it."
        )
    return dict(found)
