"""Pictures of a run. Importing it needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..._errors import GradwatchError
from ...diagnose import Finding, evidence_of
from ...run import Run
from .._fold import middle
from .._format import printable
from .._plot import needs_matplotlib, theme_named
from .._plot import plot_flow as _plot_flow
from ..charts import CURVES, MEASURED, QUANTITIES, Heat, curves, heat
from ..palette import ThemeName
from ._badges import badges_of
from ._names import Names, check_recorded, quantity_of, rows_of
from ._rows import nearest, rows_at

with needs_matplotlib():
    from ._axes import Frame
    from ._finding import draw_finding
    from ._heat import columns_for, draw_heat
    from ._histogram import draw_histogram
    from ._lines import draw_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6
"""Maximum number of rows that are drawn as lines; more of them are a heat map."""

_TITLE = 84  # letters of a title that the figure of a histogram has room for
_LABELS = {"global_norm": "norm of all gradients"}
_OF = {"activation": " of activations' gradients", "value": " of activations"}


def plot_run(
    run: Run, quantity: str, names: Names, *, kind: str, theme: ThemeName
) -> Figure:
    """Returns the figure of `Run.plot`."""
    theme_named(theme)
    chosen = quantity_of(quantity, kind)
    check_recorded(run)
    if chosen is None:
        return _plot_totals(run, quantity, names, theme)
    rows = rows_of(run, kind, names)
    drawn = heat(run, chosen, kind, count=columns_for(run.steps)).only(rows)
    label, many = chosen.axis_label, len(rows) > LINES
    below = _below(chosen.meaning, drawn, "column" if many else "point")
    frame = _frame(run, label + _OF.get(kind, ""), below, drawn.names, theme)
    if many:
        return draw_heat(drawn, chosen, frame)
    return draw_lines(drawn.only(buckets=drawn.first >= 0), label, chosen.scale, frame)


def _plot_totals(run: Run, name: str, names: Names, theme: ThemeName) -> Figure:
    """Returns the figure of a quantity of the step as a whole."""
    if names is not None:
        raise GradwatchError(
            f"`names` must be left out for {name!r}, which is of the step as a "
            f"whole. Received: {names!r}."
        )
    row = CURVES.index(name)
    every, _ = curves(run, count=720)
    drawn = every.only([row], (every.flags[row] & MEASURED) != 0)
    if not len(drawn.first):
        raise GradwatchError(
            f"`quantity` must be one that was measured. Received: {name!r}, which this "
            f"run has not. There are {', '.join(map(repr, QUANTITIES))} as well."
        )
    finite = drawn.values[np.isfinite(drawn.values)]
    log = finite.size > 0 and finite.min() > 0 and name != "loss"
    words = name.replace("_", " ")
    label = _LABELS.get(name, words)
    below = _below("Of the step as a whole.", every, "point")
    frame = _frame(run, words, below, (), theme)
    drawn = replace(drawn, names=(label,))
    return draw_lines(drawn, label, "log" if log else "linear", frame)


def plot_run_flow(
    run: Run, step: int | None, names: Names, *, theme: ThemeName
) -> Figure:
    """Returns the figure of `Run.plot_flow`."""
    theme_named(theme)
    check_recorded(run)
    index = nearest(run, step)
    kinds = tuple(k for k in ("weight", "activation") if run.store.names(k))
    rows = rows_at(run, index, kinds)
    failed: GradwatchError | None = None
    chosen = set()
    for kind in kinds if names is not None else ():
        try:  # the names may be of either kind
            known = run.store.names(kind)
            chosen |= {(kind, known[row]) for row in rows_of(run, kind, names)}
        except GradwatchError as error:
            failed = error
    if failed is not None and not chosen:
        raise failed
    rows = [row for row in rows if names is None or (row.kind, row.name) in chosen]
    shown = int(run.steps[index])
    away = "" if step in (None, shown) else f", the recorded step nearest to {step:,}"
    title = f"Gradient flow of {_short(run)} at step {shown:,}{away}"
    return _plot_flow(rows, title=title, theme=theme)


def plot_run_histogram(run: Run, name: str, *, theme: ThemeName) -> Figure:
    """Returns the figure of `Run.plot_histogram`."""
    colours = theme_named(theme)
    check_recorded(run)
    series = run[name]
    if series.kind != "weight":
        raise GradwatchError(
            "`name` must be a weight: of activations no histogram is recorded. "
            f"Received: {name!r}. `run.names` lists the weights."
        )
    if not len(series.histogram_steps):
        raise GradwatchError(
            f"`name` must be a weight with histograms. Received: {name!r}, of a run "
            "without any. `GradientMonitor(…, histograms=True)` records them."
        )
    short = _short(run)
    name = middle(printable(series.name), _TITLE - len("Gradient of  · ") - len(short))
    return draw_histogram(series, f"Gradient of {name} · {short}", colours)


def plot_finding(finding: Finding, run: Run, *, theme: ThemeName) -> Figure:
    """Returns the figure of `Finding.plot`.

    Raises:
        GradwatchError: If the run has no recorded step.
    """
    colours = theme_named(theme)
    check_recorded(run)
    return draw_finding(finding, evidence_of(finding, run), colours)


def _below(meaning: str, drawn: Heat, each: str) -> str:
    """Returns the line below the title: the meaning, and what a bucket shows."""
    several = bool((drawn.last > drawn.first).any())
    worst = f" Of each {each}, the largest; NaN and ∞ come first." if several else ""
    return f"{meaning}{worst}"


def _frame(
    run: Run, words: str, below: str, names: Sequence[str], theme: ThemeName
) -> Frame:
    """Returns what is around a picture of the rows with these names."""
    title = f"{words[0].upper()}{words[1:]} · {_short(run)}"
    return Frame(title, below, badges_of(run.findings, names), theme_named(theme))


def _short(run: Run) -> str:
    """Returns the last two parts of the directory: the rest is of the machine."""
    short = "/".join(run.directory.parts[-2:]) or str(run.directory)
    return middle(printable(short), _TITLE // 2)
