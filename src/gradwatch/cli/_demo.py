"""`gradwatch demo`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ._common import Command
from ._model import backend_option, import_keras


@click.command("demo", cls=Command)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("gradwatch-demo"),
    show_default=True,
    help="Directory for the runs, the report and the pictures.",
)
@click.option("--quick", is_flag=True, help="Train for a few steps only, as a test.")
@backend_option
def command(out: Path, quick: bool, backend: str | None) -> None:
    """Plant a fault in a network, and see it found and repaired.

    It needs no data and no network, and takes less than a minute on two cores.

    \b
    Examples:
      gradwatch demo
      gradwatch demo --out demo
      gradwatch demo --backend jax --out demo-on-jax
    """  # noqa: D301 - click reads the backspace
    # These must be set before Keras is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    if sys.stderr.isatty():
        click.echo("Loading Keras takes a few seconds …", err=True)
    with _native_notes_hidden():
        import_keras(backend)
        from rich.console import Console

        from ..demo import run_demo

        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 100
        run_demo(out, console, quick=quick)


@contextlib.contextmanager
def _native_notes_hidden() -> Iterator[None]:
    """Hides what TensorFlow writes to file descriptor 2 on start-up.

    No setting of TensorFlow hides all of it, and Keras loads it for other backends too,
    later on. Python's own messages still reach the screen.
    """
    sys.stderr.flush()
    kept, nowhere, python = os.dup(2), os.open(os.devnull, os.O_WRONLY), sys.stderr
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        sys.stderr.close()
        sys.stderr = python
        os.close(kept)
        os.close(nowhere)
