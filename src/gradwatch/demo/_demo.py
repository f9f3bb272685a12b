"""The demo: train, watch, judge, repair, explain, and say where to look next."""

from __future__ import annotations

import shutil
from pathlib import Path

import keras
from rich.console import Console
from rich.text import Text

from .._errors import GradwatchError, counted
from ..diagnose import Finding, diagnose
from ..run import open_run
from ..show.report import write_report
from ._explain import explain
from ._train import build_network, train

MARK = ".gradwatch-demo"
"""The file that says that a directory is ours to write to again."""

NAMES = ("faulty", "repaired")
"""The two runs."""


def run_demo(out: Path, console: Console, *, quick: bool = False) -> None:
    """Trains a network with a planted fault and its repaired twin, and shows both.

    Args:
        out: The directory for runs, report and pictures.
        console: Where to show it.
        quick: Whether a few steps are enough, as for a test.

    Raises:
        GradwatchError: If the directory holds what the demo did not write.
    """
    _prepare(out)
    keras.utils.set_random_seed(7)
    backend = keras.config.backend()
    runs = {name: out / "runs" / name for name in NAMES}

    _head(console, f"1. A network with a planted fault learns shapes ({backend})")
    model = build_network(faulty=True)
    before = train(model, runs["faulty"], console, quick=quick)
    console.print(f"\n{before:.0%} of 400 new pictures are right.")

    _head(console, "2. What gradwatch found")
    findings = diagnose(open_run(runs["faulty"]))
    for finding in findings:
        console.print(Text(f"{finding}\n"))

    _head(console, "3. The same network, repaired: GELU and He initialisation")
    model = build_network(faulty=False)
    after = train(model, runs["repaired"], console, quick=quick)
    console.print(f"\n{after:.0%} of 400 new pictures are right. {_healthy(runs)}")

    _head(console, "4. Why it says what it says")
    words, attribution = explain(model)
    console.print(words)

    _head(console, "5. Written")
    report = write_report(list(runs.values()), out / "report.html")
    pictures = out / "pictures"
    try:
        _draw(runs, findings, pictures)
        attribution.plot().savefig(pictures / "explained.png")
    except ImportError as error:  # matplotlib is an extra
        console.print(Text(str(error)))
    for path in (report, *sorted(pictures.glob("*.png"))):
        console.print(Text(f"  {path}  ({path.stat().st_size / 1000:,.0f} kB)"))

    _head(console, "Where to look next")
    console.print(Text(f"Open {report} in a browser: both runs, side by side."))
    console.print(Text(f"tensorboard --logdir {out / 'runs'}  has a tab Gradients."))
    console.print(
        Text("Yours: model.fit(…, callbacks=[gradwatch.GradientMonitor('runs/a')])")
    )


def _prepare(out: Path) -> None:
    """Makes the directory; what an earlier demo wrote there is taken away."""
    if out.exists() and not out.is_dir():
        raise GradwatchError(
            f"`--out` must be a directory. Received: {str(out)!r}, which is a file. "
            "Give another name."
        )
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise GradwatchError(
            "`--out` must be a new or an empty directory, or that of an earlier demo. "
            f"Received: {str(out)!r}, which holds other things. Give another name."
        )
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    for name in NAMES:
        shutil.rmtree(out / "runs" / name, ignore_errors=True)
    (out / "pictures").mkdir(exist_ok=True)


def _head(console: Console, text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}", align="left", style="dim")


def _healthy(runs: dict[str, Path]) -> str:
    found = diagnose(open_run(runs["repaired"]))
    if found:
        return f"{counted(len(found), 'finding')}: {found[0].one_line()}"
    return "Nothing is wrong with its gradients."


def _draw(runs: dict[str, Path], findings: tuple[Finding, ...], pictures: Path) -> None:
    """Draws what the runs and the first finding look like."""
    for name, directory in runs.items():
        run = open_run(directory)
        run.plot("norm").savefig(pictures / f"norm-{name}.png")
        run.plot_flow().savefig(pictures / f"flow-{name}.png")
    run.plot_histogram("dense_1/kernel").savefig(pictures / "histogram-repaired.png")
    for finding in findings[:1]:
        finding.plot().savefig(pictures / f"finding-{finding.symptom}.png")
