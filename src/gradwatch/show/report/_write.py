"""The door: runs in, a report out."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..._errors import GradwatchError, quoted
from ...run import Run, open_run
from ..charts import plain
from ._html import html
from ._markdown import markdown
from ._told import Told, told_of

FORMATS = ("html", "md", "json")
"""What a report can be."""

_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}

Runs = Sequence[Run | str | os.PathLike[str]]


def report(runs: Runs, format: str = "html", *, title: str | None = None) -> str:
    """Returns a report of runs: what is wrong first, then pictures and numbers.

    HTML is one self-contained page. It opens from disk, asks the network for nothing,
    and holds the charts of TensorBoard's Gradients tab. Of long runs it holds the worst
    of each stretch of steps, so that it stays below two megabytes.

    Example:
    >>> from gradwatch.run import Layout, Record, RunWriter
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> with RunWriter("runs/r") as writer:
    ...     writer.write(
    ...         Record(0, Layout(("a/kernel",), ("weight",), (6,)), rows, None, {})
    ...     )
    >>> print(report(["runs/r"], "md").splitlines()[2])
    ## `r`: no findings

    Args:
        runs: Runs, or their directories.
        format: "html", "md" or "json".
        title: The heading; the names of the runs without.

    Raises:
        GradwatchError: If there are no runs, or the format is none of these.
        RunError: If a directory holds no run.
    """
    if format not in FORMATS:
        raise GradwatchError(
            f"`format` must be one of {quoted(FORMATS)}. Received: {format!r}. "
            'Give "html" for a page to look at.'
        )
    told = _told(runs)
    title = title or "Training report: " + ", ".join(each.name for each in told)
    if format == "json":
        return json.dumps(_json(told, title), indent=2, ensure_ascii=False) + "\n"
    return markdown(told, title) if format == "md" else html(told, title)


def write_report(
    runs: Runs,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    title: str | None = None,
) -> Path:
    """Writes a report to a file, and returns where it is.

    Example:
    >>> from gradwatch.run import Layout, Record, RunWriter
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> with RunWriter("runs/w") as writer:
    ...     writer.write(
    ...         Record(0, Layout(("a/kernel",), ("weight",), (6,)), rows, None, {})
    ...     )
    >>> write_report(["runs/w"], "report.html").name
    'report.html'

    Args:
        runs: Runs, or their directories.
        path: The file.
        format: As in `report`; without, what the name ends in says it.
        title: As in `report`.

    Raises:
        GradwatchError: As `report`, or if the name of the file says no format.
    """
    path = Path(path)
    chosen = format or _SUFFIXES.get(path.suffix.lower())
    if chosen is None:
        raise GradwatchError(
            f"`path` must end in .html, .md or .json. Received: {str(path)!r}. "
            "Rename it, or give `format`."
        )
    text = report(runs, chosen, title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _told(runs: Runs) -> list[Told]:
    if isinstance(runs, str | os.PathLike | Run):
        runs = [runs]
    if not runs:
        raise GradwatchError(
            "`runs` must name at least one run. Received: none. Give the directory of "
            "one."
        )
    places = [Path(r.directory if isinstance(r, Run) else r) for r in runs]
    names = _names([Path(os.path.abspath(place)) for place in places])
    opened = [each if isinstance(each, Run) else open_run(each) for each in runs]
    return [told_of(run, name) for run, name in zip(opened, names, strict=True)]


def _names(places: Sequence[Path]) -> list[str]:
    """Returns the shortest ends of the paths that tell them apart."""
    for parts in range(1, max(len(place.parts) for place in places) + 1):
        names = ["/".join(place.parts[-parts:]) for place in places]
        if len(set(names)) == len(names):
            return names
    return [f"{place.name} ({at})" for at, place in enumerate(places, 1)]  # the same


def _json(runs: Sequence[Told], title: str) -> Any:
    return plain(
        {
            "format": 1,
            "title": title,
            "healthy": not any(told.findings for told in runs),
            "runs": [
                {
                    "name": told.name,
                    "steps": {
                        "records": len(told.store),
                        "first": told.store.first,
                        "last": told.store.last,
                    },
                    "trained": told.store.notes.get("run", {}),
                    "overhead": told.store.notes.get("overhead"),
                    "enough_to_judge": told.enough,
                    "findings": [
                        {**found.to_dict(), "text": str(found), "page": found.page}
                        for found in told.findings
                    ],
                    "layers": [asdict(layer) for layer in told.layers],
                }
                for told in runs
            ],
        }
    )
