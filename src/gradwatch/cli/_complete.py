"""Completions for the shell, found without Keras and at once."""

from __future__ import annotations

import glob
import itertools
import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

_MOST = 500  # directories that are searched, so that the shell answers at once
_SUFFIX = ".gradwatch"  # of our event files


def runs(_: Any, __: Any, incomplete: str) -> list[CompletionItem]:
    """Offers the runs at most three levels down; where there are none, directories."""
    levels = (f"{glob.escape(incomplete)}*{'/*' * depth}/" for depth in range(3))
    every = itertools.chain.from_iterable(map(glob.iglob, levels))
    paths = [
        os.path.dirname(path)
        for path in itertools.islice(every, _MOST)
        if any(glob.iglob(f"{glob.escape(path)}*tfevents*{_SUFFIX}"))
    ]
    items = [CompletionItem(path) for path in sorted(paths)]
    return items or [CompletionItem(incomplete, type="dir")]


def layers(ctx: click.Context, _: Any, incomplete: str) -> list[CompletionItem]:
    """Offers the layers of the model, as its file lists them."""
    try:
        # The model is still among the arguments while an option waits for its value.
        arguments = map(str, [ctx.params.get("model"), *ctx.args])
        path = next(text for text in arguments if text.endswith(".keras"))
        with zipfile.ZipFile(path) as file:
            names = list(_layers(json.loads(file.read("config.json")), ""))
    except (KeyError, OSError, StopIteration, ValueError, zipfile.BadZipFile):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _layers(config: Any, above: str) -> Iterator[str]:
    for layer in config.get("config", {}).get("layers", ()):
        if layer.get("class_name") == "InputLayer":
            continue
        name = above + str(layer["config"]["name"])
        yield name
        yield from _layers(layer, f"{name}/")
