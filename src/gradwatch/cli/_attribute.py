"""`gradwatch attribute`."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from typing import Any

import click
import numpy as np

from .._errors import GradwatchError, counted, quoted
from ._common import (
    Command,
    file_option,
    in_directory,
    json_option,
    one_sentence,
    say,
)
from ._complete import layers
from ._data import data_options, opened
from ._inspect import save_figure
from ._model import model_options
from ._targets import as_target, target_option

METHODS = (
    *("saliency", "input_x_gradient", "integrated_gradients", "smoothgrad"),
    *("grad_cam", "grad_cam_plus_plus", "layer_cam", "score_cam"),
    *("guided_backprop", "guided_grad_cam", "deconvnet", "deep_lift", "occlusion"),
    *("layer_gradient_x_activation", "layer_conductance", "internal_influence"),
    *("squaregrad", "vargrad"),
)
"""Methods that need only a model, a batch, a target and perhaps a layer."""

_OPTIONS = ("layer", "steps", "baseline")  # of some methods
_SHOWN = 20  # examples in the table


def _number(word: str) -> int | float | str:
    """Returns the number that a word is, or the word."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    return word


@click.command("attribute", cls=Command)
@model_options
@data_options
@click.option(
    "--method",
    required=True,
    type=click.Choice(METHODS),
    metavar="METHOD",
    help=f"One of {', '.join(METHODS)}.",
)
@target_option("Required: the loss is not one number for each example.")
@click.option("--layer", shell_complete=layers, metavar="ADDRESS",
              help="The layer that is attributed to; the inputs without.")  # fmt: skip
@click.option(
    "--steps",
    type=_number,
    metavar="N",
    help="Points on the path, or auto; for methods with a path.",
)
@click.option(
    "--baseline",
    type=_number,
    metavar="B",
    help="Where the path begins: zeros, mean, blur or a number; likewise.",
)
@file_option("-o", "--output", callback=in_directory,
             help="Keep it in an .npz, for gradwatch.Attribution.load.")  # fmt: skip
@file_option("--plot", callback=in_directory, help="Draw it into a .png, .svg or .pdf.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    method: str,
    target: str | None,
    output: str | None,
    plot: str | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Print which inputs drive a prediction, or which parts of a layer.

    \b
    Examples:
      gradwatch attribute model.keras --data x.npy --method saliency \\
          --target class:3 --plot why.png
      gradwatch attribute model.keras --data x.npy --target class:3 \\
          --method integrated_gradients --steps auto -o why.npz
      gradwatch attribute model.keras --data x.npy --target class:3 \\
          --method grad_cam --layer conv4
    """  # noqa: D301 - click reads the backspace
    if target is None or target == "loss":
        raise GradwatchError(
            "`--target` must say which number of each example is explained. Received: "
            f"{target or 'nothing'}. For class 3 give `--target class:3`; `mean` and "
            "`output:NAME` are others."
        )
    given = {n: value for n in _OPTIONS if (value := how.pop(n)) is not None}
    loaded, (x, _, _) = opened(ctx, **how)
    from .. import attribute

    function = getattr(attribute, method)
    takes = inspect.signature(function).parameters
    for name in given.keys() - takes.keys():
        own = [f"--{n}" for n in _OPTIONS if n in takes]
        raise GradwatchError(
            f"`--{name}` must be an option of the method. Received: {method!r}, which "
            f"has {quoted(own) or 'none of these options'}. Leave it out."
        )
    with one_sentence(ctx, "Running the model"):
        result = function(loaded, x, as_target(target), **given)
    if output is not None:
        result.save(output)
        click.echo(f"Wrote {output}.", err=True)
    if plot is not None:
        save_figure(ctx, result, plot)
    say(_table(result), _plain(result) if as_json else None)


def _plain(attribution: Any) -> dict[str, Any]:
    words, numbers = ("method", "target", "layer"), ("score", "baseline_score", "delta")
    return {
        **{name: getattr(attribution, name) for name in words},
        "settings": _settings(attribution),
        **{name: _listed(getattr(attribution, name)) for name in numbers},
        "values": {place.name: _listed(place.values) for place in attribution.places},
    }


def _settings(attribution: Any) -> dict[str, Any]:
    """Returns the settings as JSON has them; what it does not have becomes words."""
    plain = bool | int | float | str | None
    settings = {}
    for name, value in attribution.settings.items():
        value = value.item() if isinstance(value, np.generic) else value
        settings[name] = value if isinstance(value, plain) else str(value)
    return settings


def _listed(array: Any) -> Any:
    return None if array is None else np.asarray(array, "float64").tolist()


def _table(attribution: Any) -> str:
    """Returns a line for each example and tensor: its score, and where it is from."""
    from ..show import number, plain_table

    records, deltas = [], attribution.delta
    shown = range(min(len(attribution), _SHOWN))
    for example, place in itertools.product(shown, attribution.places):
        values = np.asarray(place.values[example], "float64")
        at = np.unravel_index(int(np.argmax(np.abs(values))), values.shape)
        numbers = (attribution.score[example], values.sum(), values[at])
        where = ", ".join(str(int(i)) for i in at) or "—"
        record = [str(example), place.name, *map(number, numbers), where]
        record += [] if deltas is None else [number(float(deltas[example]), 2)]
        records.append(record)
    columns = ["example", "of", "score", "sum", "largest", "at"]
    columns += [] if deltas is None else ["delta"]
    where = "the inputs" if attribution.layer is None else attribution.layer
    title = f"{attribution.method} of {attribution.target}, attributed to {where}"
    more = len(attribution) - _SHOWN
    footer = [f"and {counted(more, 'more example')}: -o keeps all."] if more > 0 else []
    words = [
        f"{name} {number(value, 3) if isinstance(value, float) else value}"
        for name, value in _settings(attribution).items()
    ]
    footer += [f"With {', '.join(words)}."] if words else []
    return plain_table(columns, records, title=title, footer=footer)
