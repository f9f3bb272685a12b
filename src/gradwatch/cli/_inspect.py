"""`gradwatch inspect`."""

from __future__ import annotations

from typing import Any

import click

from .._errors import GradwatchError
from ._common import (
    Command,
    file_option,
    in_directory,
    json_option,
    one_sentence,
    say,
)
from ._data import data_options, opened
from ._model import model_options
from ._targets import as_target, as_wrt, target_option, wrt_option


@click.command("inspect", cls=Command)
@model_options
@data_options
@target_option("Default: the compiled loss.")
@wrt_option
@click.option(
    "--training/--inference",
    default=None,
    help="Mode of the forward pass (default: training for a loss, as in fit, and "
    "otherwise inference).",
)
@file_option(
    "--plot",
    callback=in_directory,
    help="Draw the gradient flow to a .png, .svg or .pdf file.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    target: str | None,
    wrt: tuple[str, ...],
    training: bool | None,
    plot: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Print every gradient of a model for one batch, by name.

    \b
    Examples:
      gradwatch inspect model.keras --data batch.npz
      gradwatch inspect model.keras --data batch.npz --plot flow.png
      gradwatch inspect model.keras --data x.npy --target class:3 \\
          --wrt 'activations:conv*' --wrt inputs
      gradwatch inspect model.keras --data batch.npz --json
    """  # noqa: D301 - click reads the backspace
    loaded, (x, y, sample_weight) = opened(ctx, **how)
    from ..inspect import gradients
    from ..targets import has_loss, needs_labels

    differentiated = as_target(target, sample_weight)
    if y is None and has_loss(loaded) and needs_labels(loaded, differentiated):
        raise GradwatchError(
            "`--data` must hold the labels `y`, as the target is the loss. Received: "
            f"{how['data']!r}, without. Add them with `numpy.savez('batch.npz', x=x, "
            "y=y)`, or give another target, such as `--target class:3`."
        )
    # A file of x and y is for every target, also for one without labels.
    labels = y if target in (None, "loss") else None
    asked = {"target": differentiated, "wrt": as_wrt(wrt), "training": training}
    with one_sentence(ctx, "Running the model"):
        result = gradients(loaded, x, labels, **asked)
    if plot is not None:
        save_figure(ctx, result, plot)
    say(result, result.to_dict() if as_json else None)


def save_figure(ctx: click.Context, result: Any, path: str) -> None:
    """Draws a result into a file."""
    try:
        figure = result.plot()
    except ImportError as error:  # it names the extra
        raise GradwatchError(str(error)) from None
    with one_sentence(ctx, f"Drawing into {path!r}"):
        figure.savefig(path, bbox_inches="tight")
    click.echo(f"Wrote {path}.", err=True)
