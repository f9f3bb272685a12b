"""The demo: train, watch, judge, repair, explain, and say where to look next."""

from __future__ import annotations

import shutil
from pathlib import Path

import keras
from rich.console import Console
from rich.text import Text

from .._errors import GradwatchError, counted
from ..diagnose import Finding, diagnose
from ..run import Run
from ..show.report import write_report
from ._explain import explain
from ._train import train

MARK = ".gradwatch-demo"
"""File that marks a directory as one that a demo wrote."""

NAMES = ("faulty", "repaired")
"""The two runs."""


def run_demo(out: Path, console: Console, *, quick: bool = False) -> None:
    """Trains a network with a planted fault and its repaired twin, and shows both.

    Args:
        out: The directory for runs, report and pictures.
        console: The console to print to.
        quick: True to train for a few steps only, as a test.

    Raises:
        GradwatchError: If the directory holds what the demo did not write.
    """
    _prepare(out)
    keras.utils.set_random_seed(7)
    backend = keras.config.backend()
    right = "of 400 new pictures are right."

    _head(console, f"1. A network with a planted fault learns shapes ({backend})")
    _, faulty, score = train("faulty", out / "runs", console, quick=quick)
    console.print(f"\n{score:.0%} {right}")

    _head(console, "2. What gradwatch found")
    findings = diagnose(faulty)
    for finding in findings:
        console.print(Text(f"{finding}\n"))

    _head(console, "3. The same network, repaired: GELU and He initialisation")
    model, repaired, score = train("repaired", out / "runs", console, quick=quick)
    left = diagnose(repaired)
    verdict = "Nothing is wrong with its gradients."
    if left:
        verdict = f"{counted(len(left), 'finding')}: {left[0].one_line()}"
    console.print(f"\n{score:.0%} {right} {verdict}")

    _head(console, "4. Why it says what it says")
    explanation, attribution = explain(model)
    console.print(explanation)

    _head(console, "5. Written")
    report = write_report([faulty, repaired], out / "report.html")
    pictures = out / "pictures"
    try:
        _draw([faulty, repaired], findings, pictures)
        attribution.plot().savefig(pictures / "explained.png")
    except ImportError as error:  # matplotlib is an extra
        console.print(Text(str(error)))
    for path in (report, *sorted(pictures.glob("*.png"))):
        console.print(Text(f"  {path}  ({path.stat().st_size / 1000:,.0f} kB)"))

    _head(console, "Where to look next")
    for line in (
        f"Open {report} in a browser: both runs, side by side.",
        f"tensorboard --logdir {out / 'runs'}  has a tab Gradients.",
        "Yours: model.fit(…, callbacks=[gradwatch.GradientMonitor('runs/a')])",
    ):
        console.print(Text(line))


def _prepare(out: Path) -> None:
    """Makes the directory, and deletes the runs of an earlier demo in it."""
    rule, what = "", ""
    if out.exists() and not out.is_dir():
        rule, what = "be a directory", "is a file"
    elif out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        rule = "be a new or an empty directory, or that of an earlier demo"
        what = "holds other things"
    if rule:
        raise GradwatchError(
            f"`--out` must {rule}. Received: {str(out)!r}, which {what}. Give another "
            "name."
        )
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    for name in NAMES:
        shutil.rmtree(out / "runs" / name, ignore_errors=True)
    (out / "pictures").mkdir(exist_ok=True)


def _head(console: Console, text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}", align="left", style="dim")


def _draw(runs: list[Run], findings: tuple[Finding, ...], pictures: Path) -> None:
    """Draws both runs, and the first finding."""
    for name, run in zip(NAMES, runs, strict=True):
        run.plot("norm").savefig(pictures / f"norm-{name}.png")
        run.plot_flow().savefig(pictures / f"flow-{name}.png")
    histogram = runs[1].plot_histogram("dense_1/kernel")
    histogram.savefig(pictures / "histogram-repaired.png")
    for finding in findings[:1]:
        figure = finding.plot(runs[0])
        figure.savefig(pictures / f"finding-{finding.symptom}.png")
