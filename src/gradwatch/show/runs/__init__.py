"""The doors to the pictures of a run. They need no matplotlib; what is behind does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._errors import GradwatchError
from ...diagnose import Finding, evidence_of
from ...run import TOTALS, Run, Store
from ...summarise import Row
from .._fold import middle
from .._format import printable
from .._plot import needs_matplotlib, theme_named
from .._plot import plot_flow as _plot_flow
from ..charts import QUANTITIES
from ..palette import ThemeName
from ._chosen import Names, check_recorded, lines_of, quantity_of
from ._rows import nearest, rows_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = 6
"""So many lines are drawn as lines; more of them are a heat map."""

_TITLE = 84  # letters of a title that the figure of a histogram has room for


def plot_run(
    run: Run, quantity: str, names: Names, *, kind: str, theme: ThemeName
) -> Figure:
    """Returns the figure of `Run.plot`."""
    colours = theme_named(theme)
    asked = quantity_of(quantity, kind)
    check_recorded(run)
    store = run.store
    with needs_matplotlib():
        from ._heat import draw_heat, seen
        from ._lines import draw_lines, draw_totals
    if asked is None:
        if names is not None:
            raise GradwatchError(
                f"`names` must be left out for {quantity!r}, which is of the step as a "
                f"whole. Received: {names!r}."
            )
        _check_measured(store, quantity)
        return draw_totals(store, quantity, _title(quantity, run), colours)
    lines = lines_of(store, kind, names)
    shown = seen(store, asked, kind, lines)
    title = _title(_words(asked.label, kind), run)
    draw = draw_lines if len(lines) <= LINES else draw_heat
    return draw(store, shown, title, colours)


def plot_run_flow(
    run: Run, step: int | None, names: Names, *, theme: ThemeName
) -> Figure:
    """Returns the figure of `Run.plot_flow`."""
    theme_named(theme)
    check_recorded(run)
    store = run.store
    index = nearest(run, step)
    kinds = tuple(k for k in ("weight", "activation") if store.names(k))
    rows = rows_at(store, index, kinds)
    if names is not None:
        rows = _only(store, rows, kinds, names)
    found = int(run.steps[index])
    away = "" if step in (None, found) else f", the recorded step nearest to {step:,}"
    title = f"Gradient flow of {_short(run)} at step {found:,}{away}"
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
    with needs_matplotlib():
        from ._histogram import draw_histogram
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
    with needs_matplotlib():
        from ._finding import draw_finding
    return draw_finding(finding, evidence_of(finding, run), colours)


def _only(
    store: Store, rows: list[Row], kinds: tuple[str, ...], names: Names
) -> list[Row]:
    known = {kind: store.names(kind) for kind in kinds}
    found, failed = [], None
    for kind in kinds:
        try:
            chosen = {known[kind][line] for line in lines_of(store, kind, names)}
        except GradwatchError as error:
            failed = error
            continue
        found += [row for row in rows if row.kind == kind and row.name in chosen]
    if not found and failed is not None:
        raise failed
    return found


def _check_measured(store: Store, name: str) -> None:
    at = TOTALS.index(name)
    if not any(chunk.measured[at].any() for chunk in store.chunks):
        raise GradwatchError(
            f"`quantity` must be one that was measured. Received: {name!r}, which this "
            f"run has not. There are {', '.join(map(repr, QUANTITIES))} as well."
        )


def _words(label: str, kind: str) -> str:
    of = {"weight": "", "activation": " of activations' gradients"}
    return f"{label}{of.get(kind, ' of activations')}"


def _title(words: str, run: Run) -> str:
    words = words.replace("_", " ").replace("% ", "share ")
    return f"{words[0].upper()}{words[1:]} · {_short(run)}"


def _short(run: Run) -> str:
    """The last two parts of where it is: the rest is of the machine."""
    short = "/".join(run.directory.parts[-2:]) or str(run.directory)
    return middle(printable(short), _TITLE // 2)
