"""A run, finished or still being written: series of numbers by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._errors import AddressError, closest, counted, quoted
from ._export import export, to_pandas
from ._reader import Reader, as_path
from ._schema import Record
from ._series import Series, Totals, span
from ._text import newest

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    import pandas as pd

    from ..show import Figure, ThemeName


def open_run(directory: str | os.PathLike[str]) -> Run:
    """Returns the run that a monitor wrote, or is writing, to a directory.

    Example:
    >>> from gradwatch.run import Layout, Record, RunWriter
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> layout = Layout(("dense/kernel",), ("weight",), (6,))
    >>> with RunWriter("runs/c") as writer:
    ...     writer.write(Record(0, layout, rows, None, {}))
    >>> run = open_run("runs/c")
    >>> run.names, run.steps.tolist(), run["dense/kernel"].norm.tolist()
    (('dense/kernel',), [0], [0.5])

    Args:
        directory: The directory that the monitor was given.

    Raises:
        RunError: If there is no run in it.
    """
    # Histograms are held in memory: they can be read when the files are gone.
    reader = Reader(as_path(directory, "directory"), hold=True)
    run = Run(reader)
    run.refresh()
    reader.check()
    return run


class Run:
    """A run, finished or still being written: a mapping from address to `Series`.

    `run["conv1/kernel"]` is of a weight's gradient, `run["conv1"]` of an activation's
    gradient, `run.activation("conv1")` of the activation itself. The run holds what has
    been read; `run.refresh()` reads on. Where training was restarted at an earlier
    step, what it did again supersedes what was there.

    Example:
    >>> from gradwatch.run import Layout, Record, RunWriter, open_run
    >>> from gradwatch.summarise import COLUMNS, blank
    >>> rows = blank((1, len(COLUMNS)))
    >>> rows[0, COLUMNS.index("norm")] = 0.5
    >>> layout = Layout(("dense/kernel",), ("weight",), (6,))
    >>> with RunWriter("runs/c") as writer:
    ...     writer.write(Record(3, layout, rows, None, {}))
    >>> run = open_run("runs/c")
    >>> run.names, run.steps.tolist()
    (('dense/kernel',), [3])

    Args:
        source: A `Reader`, of which nothing need have been read yet. `open_run` returns
            a run that has been read to the end.

    Attributes:
        directory: The directory it is read from.
        store: The column store; everything else here is read from it.
    """

    def __init__(self, source: Reader) -> None:
        self._source = source
        self.store, self.directory = source.store, source.directory

    # reading --------------------------------------------------------------------------

    def refresh(self, seconds: float = float("inf")) -> bool:
        """Reads what was written since; returns whether that was all there is.

        Series that were taken before stay as they are.

        Args:
            seconds: About how long to read. What is left is read by the next call.
        """
        return self._source.read(seconds)

    @property
    def share(self) -> float:
        """Share of what is on disk that has been read, 0 to 1."""
        return self._source.share

    @property
    def ended(self) -> bool:
        """True if the training is over, as far as has been read."""
        return self.store.ended

    @property
    def deleted(self) -> bool:
        """True once files that had been read were deleted or cut short.

        Their numbers are no longer in the run; files that come after them are.
        """
        return self._source.deleted

    @property
    def version(self) -> int:
        """A number that is another one whenever something has changed."""
        return self.store.version

    @property
    def restarts(self) -> int:
        """Number of times that the training began, or went back to an earlier step."""
        return self.store.restarts

    # contents -------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The addresses of the weights, along the depth of the model."""
        return self.store.names("weight")

    @property
    def activations(self) -> tuple[str, ...]:
        """The addresses of the activations, along the depth of the model."""
        return self.store.names("activation", "value")

    @property
    def steps(self) -> NDArray[np.int64]:
        """The recorded steps."""
        return self.store.steps

    @property
    def num_records(self) -> int:
        """Number of recorded steps, including those no longer in memory."""
        return self.store.num_records

    @property
    def totals(self) -> Totals:
        """The numbers of each step as a whole."""
        return self.store.totals()

    @property
    def findings(self) -> tuple[dict[str, Any], ...]:
        """The findings made while it was written, each with its "step"."""
        return self.store.findings

    @property
    def notes(self) -> dict[str, dict[str, Any]]:
        """Facts of the run as a whole."""
        return self.store.notes

    # by name --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Series:
        """Returns the series of a weight's or an activation's gradient.

        `name` is its address, or a unique last part of it.
        """
        return self._find(name, ("weight", "activation"))

    def activation(self, name: str) -> Series:
        """Returns the series of an activation itself, not of its gradient."""
        return self._find(name, ("value",))

    def _find(self, name: str, kinds: tuple[str, ...]) -> Series:
        keys = [(kind, each) for kind in kinds for each in self.store.names(kind)]
        exact = [key for key in keys if key[1] == name][:1]
        matches = exact or [key for key in keys if key[1].endswith(f"/{name}")]
        if len(matches) == 1:
            return self.store.series(matches[0])
        if matches:
            names = quoted([each for _, each in matches])
            raise AddressError(
                "`name` must be an address, or a unique last part of one. Received: "
                f"{name!r}, the last part of {len(matches)}: {names}. Ask for one of "
                "them."
            )
        known = [each for _, each in keys]
        what = "an activation" if kinds == ("value",) else "a weight or an activation"
        hint = ""
        if kinds == ("value",) and name in self:
            hint = f" Of {name!r} only the gradient was recorded: `run[{name!r}]`."
        elif name in self.activations:
            hint = f" Of {name!r} only the value was: `run.activation({name!r})`."
        elif near := closest(str(name), known):
            hint = f" Closest: {quoted(near)}."
        raise AddressError(
            f"`name` must be {what} that was recorded. Received: {name!r}, none of the "
            f"{counted(len(known), 'name')}.{hint} `run.names` and `run.activations` "
            "list them all."
        )

    def __contains__(self, name: object) -> bool:
        return any(name in self.store.names(kind) for kind in ("weight", "activation"))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    # of the whole ---------------------------------------------------------------------

    @property
    def clipping_rate(self) -> float | None:
        """The share of recorded updates that were clipped; `None` if none was seen.

        Steps that only accumulate gradients, or that loss scaling skipped, are no
        updates.
        """
        totals = self.totals
        updates = (totals.update.filled(1.0) != 0) & (totals.skipped.filled(0.0) == 0)
        clipped = totals.clipped[updates].compressed()
        return float(np.mean(clipped != 0)) if len(clipped) else None

    @property
    def skipped_steps(self) -> NDArray[np.int64]:
        """The recorded steps that loss scaling skipped."""
        skipped: NDArray[np.bool_] = self.totals.skipped.filled(0.0) != 0
        return self.steps[skipped]

    @property
    def overhead(self) -> dict[str, Any] | None:
        """The cost of watching, as the monitor noted it; `None` if it did not."""
        return self.notes.get("overhead")

    def records(self) -> Iterator[Record]:
        """Returns the recorded steps in order, as they were written.

        Without histograms, which `run[name].histograms` unpacks.
        """
        return self.store.records()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a table with a row for each step and name.

        What was not measured is `<NA>`; NaN was measured. Needs
        `pip install "gradwatch[pandas]"`.
        """
        return to_pandas(self.store)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes the run to a `.csv`, `.json` or `.parquet` file.

        One row for each step and name. What was not measured is empty or null; JSON,
        which knows no NaN, has the strings "NaN", "Infinity" and "-Infinity", and also
        holds totals, findings and notes. The file appears when it is complete.

        Args:
            path: The file. Parquet needs `pip install "gradwatch[pandas]"`.
        """
        rest = {"findings": self.findings, "notes": self.notes}
        export(as_path(path, "path"), self.store, self.totals, rest)

    # pictures -------------------------------------------------------------------------

    def plot(
        self,
        quantity: str = "norm",
        names: str | re.Pattern[str] | Sequence[str | re.Pattern[str]] | None = None,
        *,
        kind: str = "weight",
        theme: ThemeName = "light",
    ) -> Figure:
        """Draws a quantity over the steps: a heat map of layers, or lines for a few.

        Up to six names are drawn as lines, more as a heat map. Nothing is averaged:
        where there are more steps than room, the worst of them is drawn, and NaN, +∞
        and −∞ have signs of their own. The findings of the monitor are marked.

        Example:
        >>> from gradwatch.run import Layout, Record, RunWriter, open_run
        >>> from gradwatch.summarise import COLUMNS, blank
        >>> rows = blank((1, len(COLUMNS)))
        >>> rows[0, COLUMNS.index("norm")] = 0.5
        >>> layout = Layout(("dense/kernel",), ("weight",), (6,))
        >>> with RunWriter("runs/p") as writer:
        ...     for step in (0, 10):
        ...         writer.write(Record(step, layout, rows, None, {}))
        >>> figure = open_run("runs/p").plot("norm")
        >>> figure.axes[0].lines[0].get_ydata().tolist()
        [0.5, 0.5]

        Args:
            quantity: "norm", "update_ratio", "zeros", "noise", "mean_abs", "largest",
                "std", "applied_norm", "update_norm", "weight_norm", "underflow" or
                "nonfinite"; or, of the step as a whole, "global_norm", "loss",
                "learning_rate" or "loss_scale".
            names: An address, a layer, a glob ("*/kernel"), a compiled regular
                expression, or a list of these (default: everything).
            kind: "weight", "activation" (its gradient) or "value" (itself).
            theme: "light" or "dark", to suit the page.

        Returns:
            The matplotlib figure, which `pyplot` does not know. Needs
            `pip install "gradwatch[plot]"`.

        Raises:
            GradwatchError: If there is no such quantity, kind, name or recorded step.
        """
        from ..show.runs import plot_run

        return plot_run(self, quantity, names, kind=kind, theme=theme)

    def plot_flow(
        self,
        step: int | None = None,
        names: str | re.Pattern[str] | Sequence[str | re.Pattern[str]] | None = None,
        *,
        theme: ThemeName = "light",
    ) -> Figure:
        """Draws the gradient flow along depth at a recorded step.

        Args:
            step: A step (default: the last). The recorded step nearest to it is drawn;
                the title names it.
            names: As `plot` takes them.
            theme: "light" or "dark", to suit the page.

        Returns:
            The matplotlib figure, as of `Gradients.plot`.

        Raises:
            GradwatchError: If nothing was recorded, or the step is beyond it.
        """
        from ..show.runs import plot_run_flow

        return plot_run_flow(self, step, names, theme=theme)

    def plot_histogram(self, name: str, *, theme: ThemeName = "light") -> Figure:
        """Draws the distribution of one weight's gradient over the steps.

        The number line runs up, by powers of ten: negative elements below, positive
        ones above, exact zeros between them.

        Args:
            name: Its address, or a unique last part of it.
            theme: "light" or "dark", to suit the page.

        Returns:
            The matplotlib figure.

        Raises:
            GradwatchError: If no histogram of it was recorded.
        """
        from ..show.runs import plot_run_histogram

        return plot_run_histogram(self, name, theme=theme)

    def __str__(self) -> str:
        return newest(self._title(), self.store)

    def __repr__(self) -> str:
        return f"<Run {self._title()}>"

    def _title(self) -> str:
        parts = [span(self.steps), counted(len(self.names), "weight")]
        if self.activations:
            parts.append(counted(len(self.activations), "activation"))
        if self.findings:
            parts.append(counted(len(self.findings), "finding"))
        return f"{str(self.directory)!r}: {', '.join(parts)}"
