"""Pictures of a run. Importing it needs matplotlib."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..._errors import GradwatchError, require
from ...diagnose import Finding, evidence_of
from ...run import Run
from .._plot import needs_matplotlib, theme_named
from .._plot import plot_flow as _plot_flow
from ..charts import CURVES, MEASURED, QUANTITIES, Heat, curves, heat
from ..palette import Theme, ThemeName
from ._names import Names, check_recorded, quantity_of, rows_of
from ._rows import nearest, rows_at

with needs_matplotlib():
    from ._axes import badges_of, rows_height, run_figure, short_name
    from ._finding import draw_finding
    from ._heat import columns_for, draw_heat
    from ._histogram import draw_histogram
    from ._lines import LINES_HEIGHT, draw_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6
"""Maximum number of rows that are drawn as lines; more of them are a heat map."""

_LABELS = {"global_norm": "norm of all gradients"}
_OF = {"activation": " of activations' gradients", "value": " of activations"}


def plot_run(
    run: Run, quantity: str, names: Names, *, kind: str, theme: ThemeName
) -> Figure:
    """Returns the figure of `Run.plot`."""
    colours = theme_named(theme)
    chosen = quantity_of(quantity, kind)
    check_recorded(run)
    if chosen is None:
        return _plot_totals(run, quantity, names, colours)
    rows = rows_of(run, kind, names)
    drawn = heat(run, chosen, kind, count=columns_for(run.steps)).only(rows)
    label, many = chosen.axis_label, len(rows) > LINES
    below = _below(chosen.meaning, drawn, "column" if many else "point")
    words, height = (label + _OF.get(kind, ""), below), LINES_HEIGHT
    if many:
        height = rows_height(len(rows))
    else:
        drawn = drawn.only(buckets=drawn.first >= 0)
    badges = badges_of(run, drawn.names)
    with run_figure(run, words, badges, height, colours) as (figure, ax):
        if many:
            draw_heat(ax, colours, drawn, chosen, badges)
        else:
            draw_lines(ax, colours, drawn, label, chosen.scale)
    return figure


def _plot_totals(run: Run, name: str, names: Names, theme: Theme) -> Figure:
    """Returns the figure of a quantity of the step as a whole."""
    rule = f"`names` must be left out for {name!r}, which is of the step as a whole."
    require(names is None, rule, names)
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
    label = _LABELS.get(name, name.replace("_", " "))
    words = name.replace("_", " "), _below("Of the step as a whole.", every, "point")
    drawn, scale = replace(drawn, names=(label,)), "log" if log else "linear"
    badges = badges_of(run, ())
    with run_figure(run, words, badges, LINES_HEIGHT, theme) as (figure, ax):
        draw_lines(ax, theme, drawn, label, scale)
    return figure


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
    title = f"Gradient flow of {short_name(run)} at step {shown:,}{away}"
    return _plot_flow(rows, title=title, theme=theme)


def plot_run_histogram(run: Run, name: str, *, theme: ThemeName) -> Figure:
    """Returns the figure of `Run.plot_histogram`."""
    colours = theme_named(theme)
    check_recorded(run)
    series = run[name]
    rule = "`name` must be a weight: of activations no histogram is recorded."
    require(series.kind == "weight", rule, name, "`run.names` lists the weights.")
    if not len(series.histogram_steps):
        raise GradwatchError(
            f"`name` must be a weight with histograms. Received: {name!r}, of a run "
            "without any. `GradientMonitor(…, histograms=True)` records them."
        )
    return draw_histogram(run, series, colours)


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
