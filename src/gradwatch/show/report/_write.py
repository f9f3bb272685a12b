"""Runs in, a report out."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..._errors import GradwatchError, arg, quoted, require
from ...run import Run, open_run
from ..charts import plain
from ._data import ReportData, report_data
from ._html import html
from ._markdown import markdown

FORMATS = ("html", "md", "json")
"""The formats of a report."""

_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}

AnyPath = str | os.PathLike[str]
Runs = Sequence[Run | AnyPath]


def report(runs: Runs, format: str = "html", *, title: str | None = None) -> str:
    """Returns a report of runs: findings first, then pictures and numbers.

    HTML is one self-contained page. It opens from disk, loads nothing from the network,
    and holds the charts of TensorBoard's Gradients tab. Long runs are reduced to the
    worst of each bucket of steps, so that the page stays below two megabytes.

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
        title: Report heading (default: the run names).

    Raises:
        GradwatchError: If there are no runs, or the format is none of these.
        RunError: If a directory holds no run.
    """
    rule = f"{arg('format')} must be one of {quoted(FORMATS)}."
    require(format in FORMATS, rule, format, 'Give "html" for a page to look at.')
    data = _gather(runs)
    title = title or "Training report: " + ", ".join(each.name for each in data)
    if format == "json":
        healthy = not any(each.findings for each in data)
        facts = {"format": 1, "title": title, "healthy": healthy}
        whole = plain({**facts, "runs": [_json_run(each) for each in data]})
        return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    return html(data, title) if format == "html" else "\n".join(markdown(data, title))


def write_report(
    runs: Runs, path: AnyPath, *, format: str | None = None, title: str | None = None
) -> Path:
    """Writes a report to a file, and returns its path.

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
        format: As in `report`; by default that of the file's suffix.
        title: As in `report`.

    Raises:
        GradwatchError: As `report`, or if the suffix of the file names no format.
    """
    path = Path(path)
    chosen = format or _SUFFIXES.get(path.suffix.lower(), "")
    rule = f"{arg('path')} must end in .html, .md or .json."
    require(chosen != "", rule, str(path), f"Rename it, or give {arg('format')}.")
    text = report(runs, chosen, title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _gather(runs: Runs) -> list[ReportData]:
    if isinstance(runs, str | os.PathLike | Run):
        runs = [runs]
    if not runs:
        raise GradwatchError(
            "`runs` must name at least one run. Received: none. Give the directory of "
            "one."
        )
    opened = [each if isinstance(each, Run) else open_run(each) for each in runs]
    paths = [Path(os.path.abspath(run.directory)).parts for run in opened]
    # The shortest ends of the paths that differ; numbers, if the same is given twice.
    lengths = range(1, max(map(len, paths)) + 1)
    ends = (["/".join(p[-n:]) for p in paths] for n in lengths)
    numbered = [f"{path[-1]} ({at})" for at, path in enumerate(paths, 1)]
    names = next((own for own in ends if len(set(own)) == len(own)), numbered)
    return [report_data(run, name) for run, name in zip(opened, names, strict=True)]


def _json_run(data: ReportData) -> dict[str, Any]:
    store, notes = data.run.store, data.run.notes
    return {
        "name": data.name,
        "steps": {"records": len(store), "first": store.first, "last": store.last},
        "trained": notes.get("run", {}),
        "overhead": notes.get("overhead"),
        "enough_to_judge": data.enough,
        "findings": [
            {**finding.to_dict(), "text": str(finding), "page": finding.page}
            for finding in data.findings
        ],
        "layers": data.layers,
    }
