"""`gradwatch layers`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from ._common import Command, json_option, say
from ._model import load, model_options


@click.command("layers", cls=Command)
@model_options
@json_option
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, **how: Any) -> None:
    """List the layers of a model by their addresses.

    These are the names that --wrt and --layer take, and that runs and findings have.

    \b
    Examples:
      gradwatch layers model.keras
      gradwatch layers model.keras --json
      gradwatch layers model.keras --import my_layers
    """  # noqa: D301 - click reads the backspace
    loaded = load(ctx, **how)
    from ..inspect import layers

    listed = layers(loaded)
    data = {"model": listed.name, "layers": [asdict(info) for info in listed.infos]}
    say(str(listed), data if as_json else None)
